"""Prints what is in the emulated cloud, by region, as JSON: `cloud_state.py URL REGION...`, with the tools' Python."""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

import boto3


def client(service: str, region: str, url: str) -> Any:
    return boto3.client(
        service, region_name=region, endpoint_url=url, aws_access_key_id="test", aws_secret_access_key="test"
    )


def region_state(region: str, url: str) -> dict[str, Any]:
    """Everything of ours in a region; what every account has from the start is left out."""
    ec2 = client("ec2", region, url)
    vpcs = {v["VpcId"]: v["CidrBlock"] for v in ec2.describe_vpcs()["Vpcs"] if not v["IsDefault"]}
    mine = [{"Name": "vpc-id", "Values": list(vpcs) or ["none"]}]
    return {
        "vpcs": vpcs,
        "instances": [_instance(ec2, i) for i in _instances(ec2)],
        "volumes": [
            {"encrypted": v["Encrypted"], "size": v["Size"], "attached": len(v["Attachments"]), "tags": _tags(v)}
            for v in ec2.describe_volumes()["Volumes"]
        ],
        "groups": {
            g["GroupName"]: _group(ec2, g) for g in ec2.describe_security_groups(Filters=mine)["SecurityGroups"]
        },
        "peerings": [
            {"status": p["Status"]["Code"], "from": p["RequesterVpcInfo"]["VpcId"], "to": p["AccepterVpcInfo"]["VpcId"]}
            for p in ec2.describe_vpc_peering_connections()["VpcPeeringConnections"]
        ],
        "routes": sorted(
            (route["DestinationCidrBlock"], _target(route))
            for table in ec2.describe_route_tables(Filters=mine)["RouteTables"]
            if _tags(table).get("Name")
            for route in table["Routes"]
            if "DestinationCidrBlock" in route
        ),
        "subnets": [
            {"cidr": s["CidrBlock"], "public": s["MapPublicIpOnLaunch"]}
            for s in ec2.describe_subnets(Filters=mine)["Subnets"]
        ],
        "endpoints": [e["ServiceName"] for e in ec2.describe_vpc_endpoints()["VpcEndpoints"]],
        "addresses": [a["PublicIp"] for a in ec2.describe_addresses()["Addresses"]],
        "key_pairs": len(ec2.describe_key_pairs()["KeyPairs"]),
    }


def _instances(ec2: Any) -> list[Any]:
    found = [i for r in ec2.describe_instances()["Reservations"] for i in r["Instances"]]
    return [i for i in found if i["State"]["Name"] not in ("terminated", "shutting-down")]


def _instance(ec2: Any, instance: Any) -> dict[str, Any]:
    asked = ec2.describe_instance_attribute(InstanceId=instance["InstanceId"], Attribute="userData")
    return {
        "state": instance["State"]["Name"],
        "type": instance["InstanceType"],
        "address": instance["PrivateIpAddress"],
        "image": instance["ImageId"],
        "tokens": instance.get("MetadataOptions", {}).get("HttpTokens", ""),
        "key": instance.get("KeyName", ""),
        "profile": bool(instance.get("IamInstanceProfile")),
        "tags": _tags(instance),
        "user_data": base64.b64decode(asked["UserData"].get("Value", "")).decode(),
    }


def _group(ec2: Any, group: Any) -> dict[str, Any]:
    rules = ec2.describe_security_group_rules(Filters=[{"Name": "group-id", "Values": [group["GroupId"]]}])
    return {
        way: sorted(
            (
                r["IpProtocol"],
                r["FromPort"],
                r["ToPort"],
                r.get("CidrIpv4") or r.get("PrefixListId") or "another group",
            )
            for r in rules["SecurityGroupRules"]
            if r["IsEgress"] is egress
        )
        for way, egress in (("in", False), ("out", True))
    }


def _target(route: Any) -> str:
    kinds = {"VpcPeeringConnectionId": "peering", "GatewayId": "gateway"}
    return next((kind for key, kind in kinds.items() if route.get(key) not in (None, "local")), "local")


def _tags(thing: Any) -> dict[str, str]:
    return {t["Key"]: t["Value"] for t in thing.get("Tags", [])}


def buckets(url: str) -> list[dict[str, Any]]:
    """All buckets, with who may read them."""
    s3 = client("s3", "us-east-1", url)
    names = [b["Name"] for b in s3.list_buckets()["Buckets"]]
    return [
        {
            "name": name,
            "policy": json.loads(s3.get_bucket_policy(Bucket=name)["Policy"]),
            "closed": all(s3.get_public_access_block(Bucket=name)["PublicAccessBlockConfiguration"].values()),
            "objects": [o["Key"] for o in s3.list_objects_v2(Bucket=name).get("Contents", [])],
        }
        for name in names
    ]


def main() -> None:
    url, *regions = sys.argv[1:]
    state = {"regions": {region: region_state(region, url) for region in regions}, "buckets": buckets(url)}
    sys.stdout.write(json.dumps(state) + "\n")


if __name__ == "__main__":
    main()
