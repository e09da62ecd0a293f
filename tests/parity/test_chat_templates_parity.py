"""Chat templates: ours and transformers' apply_chat_template give the same text, or refuse the same conversations.

The templates are written here in the formats of published models; each uses constructs that the published ones use.
"""

from types import SimpleNamespace

import pytest

from model.text.chat import _values
from model.text.chat_render import write

CHATML = """{%- for message in messages -%}
{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|im_start|>assistant\n' }}{%- endif -%}"""
QWEN = """{%- if messages[0].role == 'system' %}
    {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
{%- elif not tools %}
    {{- '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}
{%- endif %}
{%- set ns = namespace(multi_step=true, last=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step and message.role == "user" and not message.content.startswith('<t>') %}
        {%- set ns.multi_step = false %}
        {%- set ns.last = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.role == "user" or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\n' + message.content + '<|im_end|>\n' }}
    {%- elif message.role == "assistant" %}
        {%- set content = message.content %}
        {%- if '</think>' in content %}
            {%- set thought = content.split('</think>')[0].rstrip('\n').split('<think>')[-1].lstrip('\n') %}
            {%- set content = content.split('</think>')[-1].lstrip('\n') %}
        {%- endif %}
        {%- if thought is defined and loop.index0 > ns.last %}{{- '<think>' + thought + '</think>' }}{%- endif %}
        {{- '<|im_start|>assistant\n' + content + '<|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}
{%- endif %}"""
LLAMA3 = """{{- bos_token }}
{%- if not date_string is defined %}{%- set date_string = strftime_now("%d %b") %}{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\n\n" }}
{{- "Today: " + date_string + "\n\n" }}
{%- if tools is not none %}{{- tools | tojson(indent=4) }}{%- endif %}
{{- system_message + "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' }}
        {{- message['content'] | trim + '<|eot_id|>' }}
    {%- elif message.role == "tool" or message.role == "ipython" %}
        {{- "<|start_header_id|>ipython<|end_header_id|>\n\n" }}
        {%- if message.content is mapping or message.content is iterable %}{{- message.content | tojson }}
        {%- else %}{{- message.content }}{%- endif %}
        {{- "<|eot_id|>" }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}"""
LLAMA2 = (
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
    "{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}"
    "{% set system_message = false %}{% endif %}{% for message in loop_messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('roles must alternate') }}{% endif %}"
    "{% if loop.index0 == 0 and system_message != false %}"
    "{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] %}"
    "{% else %}{% set content = message['content'] %}{% endif %}"
    "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content.strip() + ' [/INST]' }}"
    "{% elif message['role'] == 'assistant' %}{{ ' '  + content.strip() + ' ' + eos_token }}{% endif %}{% endfor %}"
)
MISTRAL = """{%- set loop_messages = messages | rejectattr('role', 'equalto', 'system') | list %}
{{- bos_token }}
{%- for message in loop_messages %}
    {%- if (message["role"] == "user") != (loop.index0 % 2 == 0) %}
        {{- raise_exception("After the optional system message, roles must alternate user/assistant") }}
    {%- endif %}
    {%- if message["role"] == "user" %}
        {{- "[INST]" + message["content"] + "[/INST]" }}
    {%- else %}
        {{- message["content"]|trim + eos_token }}
    {%- endif %}
{%- endfor %}"""
GEMMA = (
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}"
    "{% for message in messages %}{% if (message['role'] == 'assistant') %}{% set role = 'model' %}{% else %}"
    "{% set role = message['role'] %}{% endif %}"
    "{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{'<start_of_turn>model\n'}}{% endif %}"
)
PHI3 = (
    "{% for message in messages %}{% if message['role'] == 'system' and message['content'] %}"
    "{{'<|system|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'user' %}"
    "{{'<|user|>\n' + message['content'] + '<|end|>\n'}}{% elif message['role'] == 'assistant' %}"
    "{{'<|assistant|>\n' + message['content'] + '<|end|>\n'}}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% else %}{{ eos_token }}{% endif %}"
)
ZEPHYR = """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>
'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""
SMOLLM3 = """{# defaults #}
{%- if enable_thinking is not defined -%}{%- set enable_thinking = true -%}{%- endif -%}
{%- set mode = "/think" if enable_thinking else "/no_think" -%}
{%- if messages[0].role == "system" and "/no_think" in messages[0].content -%}
    {%- set mode = "/no_think" -%}
{%- endif -%}
{{- "<|im_start|>system\n## Metadata\n\nDate: " ~ strftime_now("%d %B %Y") ~ "\nMode: " ~ mode ~ "\n" -}}
{%- for message in messages -%}
    {%- set content = message.content if message.content is string else "" -%}
    {%- if message.role == "user" -%}{{ "<|im_start|>user\n" + content + "<|im_end|>\n" }}
    {%- elif message.role == "assistant" -%}
        {% generation %}{{ "<|im_start|>assistant\n" + content.lstrip("\n") + "<|im_end|>\n" }}{% endgeneration %}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ "<|im_start|>assistant\n" }}{%- endif -%}"""
GRANITE = """{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] %}
    {%- set loop_messages = messages[1:] %}
{%- else %}
    {%- set system_message = "You are Granite." %}
    {%- if documents %}{%- set system_message = system_message + " Cite." %}{%- endif %}
    {%- set loop_messages = messages %}
{%- endif %}
{{- '<|start_of_role|>system<|end_of_role|>' + system_message + '<|end_of_text|>\n' }}
{%- for message in loop_messages %}
    {{- '<|start_of_role|>' + message['role'] + '<|end_of_role|>' + message['content'] + '<|end_of_text|>\n' }}
    {%- if loop.last and add_generation_prompt %}{{- '<|start_of_role|>assistant' }}
        {%- if controls %}{{- ' ' + controls | tojson() }}{%- endif %}{{- '<|end_of_role|>' }}
    {%- endif %}
{%- endfor %}"""
HARMONY = """{%- macro render_param_type(spec, depth=0) -%}
    {%- if spec.type == "array" -%}{{- render_param_type(spec["items"], depth + 1) + "[]" -}}
    {%- else -%}{{- spec.type | default("any") -}}{%- endif -%}
{%- endmacro -%}
{%- macro build_system_message() -%}
    {{- "Knowledge cutoff: 2024-06\nCurrent date: " + strftime_now("%Y-%m-%d") + "\n\n" }}
    {{- "Reasoning: " + (reasoning_effort if reasoning_effort is defined else "medium") }}
{%- endmacro -%}
{{- "<|start|>system<|message|>" }}{{- build_system_message() }}{{- "<|end|>" }}
{%- if messages[0].role == "developer" or messages[0].role == "system" %}
    {%- set developer_message = messages[0].content %}{%- set loop_messages = messages[1:] %}
{%- else %}{%- set developer_message = "" %}{%- set loop_messages = messages %}{%- endif %}
{%- if developer_message or tools %}
    {{- "<|start|>developer<|message|># Instructions\n\n" + developer_message + "<|end|>" }}
{%- endif %}
{{- render_param_type({"type": "array", "items": {"type": "array", "items": {"type": "int"}}}) }}
{%- set last_tool_call = namespace(name=none) %}
{%- for message in loop_messages -%}
    {%- if message.role == 'assistant' -%}
        {%- if "<|channel|>" in message.content %}{{- raise_exception("A message has channel tags.") }}{%- endif %}
        {{- "<|start|>assistant<|channel|>final<|message|>" + message.content }}
        {%- if loop.last and not add_generation_prompt %}{{- "<|return|>" }}{%- else %}{{- "<|end|>" }}{%- endif %}
    {%- elif message.role == 'tool' -%}
        {%- if last_tool_call.name is none %}{{- raise_exception("Message has tool role, but no call.") }}{%- endif %}
    {%- elif message.role == 'user' -%}
        {{- "<|start|>user<|message|>" + message.content + "<|end|>" }}
    {%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}<|start|>assistant{%- endif -%}"""
COMMAND_R = """{{ bos_token }}{%- set roles = {'user': 'USER', 'assistant': 'CHATBOT', 'system': 'SYSTEM'} -%}
{%- for message in messages -%}
    {%- if message.role not in roles -%}{%- continue -%}{%- endif -%}
    {%- if loop.index0 > 50 -%}{%- break -%}{%- endif -%}
    {{ '<|START|><|' ~ roles[message.role] ~ '_TOKEN|>' ~ message.content|trim ~ '<|END|>' }}
    {%- if loop.previtem is defined and loop.previtem.role == message.role -%}{{ ' again' }}{%- endif -%}
{%- endfor -%}
{%- for key, value in {'b': [1, 2.5], 'a': none} | dictsort -%}
    {{ key ~ '=' ~ value | tojson }}{{ ',' if not loop.last }}{%- endfor -%}
{%- filter upper -%}end{%- endfilter -%}
{%- set joined -%}{{ messages | map(attribute='role') | unique | join('+') }}{%- endset -%}{{ joined }}
{{- messages | selectattr('role', 'in', ['user']) | list | length }}{{ messages[-1].content[:3] | tojson }}"""
TEMPLATES = {
    "ChatML": CHATML,
    "Qwen 2.5 and 3": QWEN,
    "Llama 3": LLAMA3,
    "Llama 2": LLAMA2,
    "Mistral": MISTRAL,
    "Gemma": GEMMA,
    "Phi-3": PHI3,
    "Zephyr, TinyLlama": ZEPHYR,
    "SmolLM3": SMOLLM3,
    "Granite": GRANITE,
    "gpt-oss": HARMONY,
    "Command R": COMMAND_R,
}


def turns(*pairs: str) -> list[dict[str, str]]:
    """Return messages from texts such as "user: Hi"."""
    return [dict(zip(("role", "content"), each.split(": ", 1), strict=True)) for each in pairs]


CONVERSATIONS = {
    "one": turns("user: Hi"),
    "system": turns("system: Be kind.", "user:  Hi <b> & 'q' "),
    "several": turns("user: Hi", "assistant: Hello", "user: 你好\n👍"),
    "all": turns("system: /no_think", "user: a", "assistant:  b\n", "user: c", "assistant: <think>\nx\n</think>\n\nd"),
    "empty texts": turns("system: ", "user: ", "assistant: ", "user: x"),
    "answered": turns("user: x", "assistant: <think>\nhm\n</think>\n\nyes"),
    "twice the same role": turns("user: x", "user: y"),
    "a tool's result": turns("user: x", "assistant: y", 'tool: {"a": [1, "ü"]}'),
}


@pytest.mark.parametrize("name", TEMPLATES)
def test_the_text_equals_that_of_transformers(name):
    from transformers.utils.chat_template_utils import render_jinja_template

    named = {"bos_token": "<s>", "eos_token": "</s>"}
    tokenizer = SimpleNamespace(bos_id=None, eos_id=None, vocabulary=SimpleNamespace(named=named))
    written = 0
    for messages in CONVERSATIONS.values():
        for answer in (True, False):
            ours = write(TEMPLATES[name], _values(tokenizer, messages, answer))
            try:
                (theirs,), _ = render_jinja_template(
                    [messages], chat_template=TEMPLATES[name], add_generation_prompt=answer, **named
                )
            except Exception as error:  # raise_exception gives a TemplateError
                assert ours == {"error": "refused", "got": str(error)}
            else:
                assert ours == {"text": theirs}
                written += 1
    assert written >= 4
