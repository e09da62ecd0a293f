"""The manifest for KubeRay has the fields that its kinds ask for, and its parts name one another rightly."""

from pathlib import Path

import pytest
import yaml

import app

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "docs" / "cluster"


@pytest.fixture(scope="module")
def parts():
    documents = yaml.safe_load_all((FOLDER / "kuberay.yaml").read_text(encoding="utf-8"))
    return {each["kind"]: each for each in documents}


def pods(parts):
    """The pod templates by what they run."""
    cluster = parts["RayCluster"]["spec"]
    (workers,) = cluster["workerGroupSpecs"]
    return {
        "head": cluster["headGroupSpec"]["template"]["spec"],
        "worker": workers["template"]["spec"],
        "page": parts["Deployment"]["spec"]["template"]["spec"],
    }


def variables(pod):
    return {each["name"]: each["value"] for each in pod["containers"][0].get("env", ())}


def test_every_part_is_a_whole_object(parts):
    assert set(parts) == {"RayCluster", "NetworkPolicy", "Deployment", "Service"}
    versions = {kind: part["apiVersion"] for kind, part in parts.items()}
    assert versions["RayCluster"] == "ray.io/v1" and versions["Deployment"] == "apps/v1"
    assert all(part["metadata"]["name"] and part["spec"] for part in parts.values())


def test_the_cluster_has_what_kuberay_asks_for(parts):
    spec = parts["RayCluster"]["spec"]
    (workers,) = spec["workerGroupSpecs"]
    assert spec["enableInTreeAutoscaling"] is True
    assert {"groupName", "replicas", "minReplicas", "maxReplicas", "rayStartParams", "template"} <= set(workers)
    assert 0 < workers["minReplicas"] <= workers["replicas"] <= workers["maxReplicas"]
    started = [spec["headGroupSpec"]["rayStartParams"], workers["rayStartParams"]]
    assert all(isinstance(value, str) for each in started for value in each.values())  # flags of ray start
    ports = {each["name"]: each["containerPort"] for each in pods(parts)["head"]["containers"][0]["ports"]}
    assert ports == {"gcs": 6379, "client": 10001}


def test_all_pods_run_one_image_with_the_ray_that_is_pinned(parts):
    containers = [container for pod in pods(parts).values() for container in pod["containers"]]
    assert len(containers) == 3 and len({each["image"] for each in containers}) == 1
    for each in containers:
        assert set(each["resources"]) == {"requests", "limits"}
        assert all({"cpu", "memory"} <= set(amount) for amount in each["resources"].values())
    pinned = (ROOT / "requirements-cluster.txt").read_text(encoding="utf-8")
    assert f"ray[client]=={parts['RayCluster']['spec']['rayVersion']}" in pinned
    assert "ray[client]" in (ROOT / "requirements-dev.txt").read_text(encoding="utf-8")
    assert "requirements-cluster.txt" in (FOLDER / "Dockerfile").read_text(encoding="utf-8")


def test_the_page_is_started_as_the_command_line_has_it_and_finds_the_head(parts):
    (page,) = pods(parts)["page"]["containers"]
    python, script, *line = page["command"]
    options = app.parse(line, {})
    assert (python, script) == ("python", "app.py") and options.public and options.host == "0.0.0.0"
    assert options.engine == f"ray://{parts['RayCluster']['metadata']['name']}-head-svc:10001"
    assert options.port == page["ports"][0]["containerPort"]
    assert page["readinessProbe"]["httpGet"]["path"] == "/playground/alive"
    auth = {name: variables(pod).get("RAY_AUTH_MODE") for name, pod in pods(parts).items()}
    assert len(set(auth.values())) == 1


def test_only_the_pods_themselves_reach_ray_and_the_service_reaches_the_page(parts):
    labels = parts["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert parts["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert parts["Service"]["spec"]["selector"] == labels
    policy = parts["NetworkPolicy"]["spec"]
    ours = {"ray.io/cluster": parts["RayCluster"]["metadata"]["name"]}
    assert policy["podSelector"]["matchLabels"] == ours and policy["policyTypes"] == ["Ingress"]
    (rule,) = policy["ingress"]
    allowed = [each["podSelector"]["matchLabels"] for each in rule["from"] if "podSelector" in each]
    assert allowed == [ours, labels]
