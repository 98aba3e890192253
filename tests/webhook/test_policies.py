"""The chart's admission policies on a real API server: who may give content to what training pods mount."""

import pytest
from kubernetes.dynamic import exceptions

import kube as clients
import webhook_install as install
from kubernetes import config, dynamic

pytestmark = pytest.mark.controlplane


@pytest.fixture(scope="module")
def policies(kube, tmp_path_factory):
    """The policies, in force."""
    install.apply_release(kube, tmp_path_factory.mktemp("policies"))
    namespace = kube.namespace()
    install.wait("in force", lambda: is_denied(lambda: make(kube, namespace, "rankbeat-agent-probe", dry_run="All")))
    yield
    install.delete_admission(kube)


@pytest.fixture(scope="module")
def as_operator(control_plane, policies):
    """Clients that act as the operator's ServiceAccount, with the chart's rights."""
    api = config.new_client_from_config(config_file=str(control_plane.kubeconfig))
    api.set_default_header("Impersonate-User", install.OPERATOR)
    with api:
        yield clients.Kube(control_plane.kubeconfig, api, dynamic.DynamicClient(api))


def is_denied(act):
    try:
        act()
    except exceptions.ForbiddenError as error:
        return "ValidatingAdmissionPolicy" in str(error.body)
    return False


def make(kube, namespace, name, **options):
    metadata = {"generateName": name} if name.endswith("-") else {"name": name}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "1"}}
    return kube.resource("v1", "ConfigMap").create(body=body, namespace=namespace, **options)


@pytest.mark.parametrize("name", ["rankbeat-agent-x", "rankbeat-config-llm", "rankbeat-agent-", "rankbeat-config-"])
def test_nobody_but_the_operator_makes_what_pods_mount(kube, as_operator, name):
    namespace = kube.namespace()

    assert is_denied(lambda: make(kube, namespace, name))
    make(as_operator, namespace, name)


@pytest.mark.parametrize("name", ["rankbeat-agent", "my-rankbeat-agent-x", "kube-root-ca.crt2", "settings"])
def test_other_configmaps_are_none_of_our_business_and_closed_to_the_operator(kube, as_operator, name):
    namespace = kube.namespace()
    make(kube, namespace, name)

    assert is_denied(lambda: make(as_operator, namespace, f"{name.removeprefix('rankbeat-')}-2"))


def patch(kube, namespace, name, body):
    resource = kube.resource("v1", "ConfigMap")
    options = {"content_type": "application/merge-patch+json", "namespace": namespace, "name": name}
    return resource.patch(body=body, **options)


@pytest.mark.parametrize(
    "body",
    [{"data": {"a": "2"}}, {"data": {"b": "2"}}, {"data": None}, {"binaryData": {"b": "AA=="}}, {"immutable": True}],
    ids=["value", "key", "emptied", "binary", "frozen"],
)
def test_nobody_but_the_operator_changes_what_pods_mount(kube, as_operator, body):
    namespace = kube.namespace()
    make(as_operator, namespace, "rankbeat-config-llm")

    assert is_denied(lambda: patch(kube, namespace, "rankbeat-config-llm", body))
    patch(as_operator, namespace, "rankbeat-config-llm", body)


def test_the_operator_changes_no_configmap_of_others(kube, as_operator):
    namespace = kube.namespace()
    make(kube, namespace, "settings")

    assert is_denied(lambda: patch(as_operator, namespace, "settings", {"data": {"a": "2"}}))


def test_the_garbage_collector_may_take_finalizers_off_and_anyone_may_delete(kube, as_operator):
    """A refused update of metadata would keep the object, and with it the namespace, for ever."""
    namespace = kube.namespace()
    configmaps = kube.resource("v1", "ConfigMap")
    for name in ("rankbeat-agent-x", "rankbeat-config-llm"):
        make(as_operator, namespace, name)
    patch(kube, namespace, "rankbeat-agent-x", {"metadata": {"labels": {"a": "b"}}})

    configmaps.delete(name="rankbeat-config-llm", namespace=namespace, body={"propagationPolicy": "Foreground"})
    configmaps.delete(name="rankbeat-agent-x", namespace=namespace)

    install.wait(
        "both gone",
        lambda: {each.metadata.name for each in configmaps.get(namespace=namespace).items} == {"kube-root-ca.crt"},
    )
