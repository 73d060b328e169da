"""Where on the depth axis a site lies."""

from sigmascope.records import Profile

OUTPUT = "(output)"  # what the network returns, one place after the last layer


def depths(profile: Profile) -> dict[str, int]:
    """Depth of every site: layers by their order, a weight at the first layer that applies it.

    A profile without layers, of a checkpoint say, numbers its sites as they come. Sites that are
    neither a layer nor a weight of one are absent.
    """
    if not profile.layers:
        sites = dict.fromkeys(r.site for r in profile.readings)
        return {site: depth for depth, site in enumerate(sites)}
    found = {OUTPUT: 1 + max(layer.depth for layer in profile.layers)}
    for layer in sorted(profile.layers, key=lambda layer: layer.depth):
        for name in layer.parameters:
            found.setdefault(name, layer.depth)
    return found | {layer.site: layer.depth for layer in profile.layers}
