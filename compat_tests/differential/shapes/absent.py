"""What neither broker has here: access control lists, reassignments and quotas. How that is said is compared."""

from typing import Any

from compat_tests.differential.world import World

UNKNOWN = 0


def code(world: World) -> int:
    """Of a resource, a pattern, an operation or a permission."""
    return world.pick(world.one(1, 2, 3), UNKNOWN, 7, 99, -1, p=0.2)


def acl_filter(world: World) -> dict[str, Any]:
    return {
        "ResourceTypeFilter": code(world),
        "ResourceNameFilter": world.pick(world.topic(), None, ""),
        "PatternTypeFilter": code(world),
        "PrincipalFilter": world.pick("User:u", None, "nobody", ""),
        "HostFilter": world.pick("*", None, ""),
        "Operation": code(world),
        "PermissionType": code(world),
    }


def acl(world: World) -> dict[str, Any]:
    return {
        "ResourceType": code(world),
        "ResourceName": world.pick(world.topic(), ""),
        "ResourcePatternType": code(world),
        "Principal": world.pick("User:u", "nobody", ""),
        "Host": world.pick("*", ""),
        "Operation": code(world),
        "PermissionType": code(world),
    }


def describe_acls(world: World, version: int) -> dict[str, Any]:
    return acl_filter(world)


def create_acls(world: World, version: int) -> dict[str, Any]:
    return {"Creations": world.some(lambda: acl(world), 2)}


def delete_acls(world: World, version: int) -> dict[str, Any]:
    return {"Filters": world.some(lambda: acl_filter(world), 2)}


def list_partition_reassignments(world: World, version: int) -> dict[str, Any]:
    def topic() -> dict[str, Any]:
        return {"Name": world.topic(), "PartitionIndexes": world.some(world.partition, 3)}

    return {"Topics": world.pick(world.some(topic, 2), None, [], p=0.4)}


def describe_client_quotas(world: World, version: int) -> dict[str, Any]:
    def component() -> dict[str, Any]:
        match_type, match = world.pick(
            world.one((0, "u"), (1, None), (2, None)), (0, None), (1, "u"), (2, "u"), (3, None), (-1, "u")
        )
        entity_type = world.pick(world.one("user", "client-id", "ip"), "", "cluster")
        return {"EntityType": entity_type, "MatchType": match_type, "Match": match}

    return {"Components": world.some(component, 3), "Strict": world.flag()}


SHAPES = {
    "DescribeAcls": describe_acls,
    "CreateAcls": create_acls,
    "DeleteAcls": delete_acls,
    "ListPartitionReassignments": list_partition_reassignments,
    "DescribeClientQuotas": describe_client_quotas,
}
