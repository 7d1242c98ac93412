"""All kinds of cluster, by the name that scenarios give them. A kind belongs to one rig."""
import kubernetes
import talos

RIGS = {talos.TalosCluster: talos.KINDS, kubernetes.KubernetesCluster: kubernetes.KINDS}
KINDS = {name: kind for kinds in RIGS.values() for name, kind in kinds.items()}


def cluster_of(kind):
    rig = next(rig for rig, kinds in RIGS.items() if kind in kinds)
    return rig(KINDS[kind])


def rigs_of(wanted):
    """One cluster of each rig that has some of these kinds: to end whatever is up there."""
    return [rig(next(iter(kinds.values()))) for rig, kinds in RIGS.items() if kinds.keys() & wanted]
