"""The fleet: what the install's values ask for in the release namespace."""

import logging

from rankbeat_contract import names
from rankbeat_operator.errors import InvalidFleetError
from rankbeat_operator.handlers.context import Context
from rankbeat_operator.kube import files, kinds
from rankbeat_operator.model.manifests import labels
from rankbeat_operator.plan import fleet
from rankbeat_operator.plan.fleet.pods import Release

LOG = logging.getLogger(__name__)


async def reconcile(context: Context) -> None:
    """All objects of the fleet. Without a fleet.yaml there is none.

    Raises: ApiError.
    """
    namespace = context.settings.namespace
    try:
        wanted = files.installed_fleet(context.settings.fleet_folder)
    except InvalidFleetError as error:
        await _report(context, error)
        return
    context.knowledge.fleet_problem = ""
    owner = await context.cluster.found(kinds.CONFIG_MAPS, names.FLEET_CONFIG_MAP, namespace)
    if wanted is None or owner is None:
        LOG.debug("no fleet folder=%s config_map=%s", context.settings.fleet_folder, owner is not None)
        return
    desired = fleet.desired(wanted, Release(namespace, owner["metadata"]["uid"]))
    for manifest in desired.objects:
        await context.cluster.apply(manifest, names.MANAGER_FLEET)
    for name in desired.absent_daemon_sets:
        await _delete_own(context, name)


async def _delete_own(context: Context, name: str) -> None:
    found = await context.cluster.found(kinds.DAEMON_SETS, name, context.settings.namespace)
    if found is not None and labels(found).get("app.kubernetes.io/managed-by") == names.OPERATOR:
        await context.cluster.delete(kinds.DAEMON_SETS, name, context.settings.namespace)
        LOG.info("daemon set deleted name=%s", name)


async def _report(context: Context, error: InvalidFleetError) -> None:
    """Says what is wrong where the platform's owner looks; the fleet stays as it is."""
    if context.knowledge.fleet_problem != str(error):
        LOG.error("fleet not applied error=%s", error)
    context.knowledge.fleet_problem = str(error)
    found = await context.cluster.found(kinds.CONFIG_MAPS, names.FLEET_CONFIG_MAP, context.settings.namespace)
    if found is not None:
        await context.events.warn(found, "InvalidFleet", f"{error}; the fleet stays as it was")
