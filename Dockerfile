# docker build -t attention-playground . && docker run --rm -p 7860:7860 attention-playground
FROM python:3.12-slim
WORKDIR /app
COPY requirements.txt ./
RUN pip install --no-cache-dir torch==2.13.0 --index-url https://download.pytorch.org/whl/cpu \
    && pip install --no-cache-dir -r requirements.txt
COPY app.py pyproject.toml LICENSE ./
COPY model model
COPY viz viz
COPY static static
COPY docs/mini_gpt.py docs/
RUN useradd --create-home --uid 1000 playground
USER playground
EXPOSE 7860
HEALTHCHECK --start-period=60s CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:7860/playground/alive')"]
ENTRYPOINT ["python", "app.py", "--public", "--host", "0.0.0.0", "--port", "7860"]
# Everything is inside. Other arguments replace this one: with --models smollm2-135m, the weights are fetched.
CMD ["--offline"]
