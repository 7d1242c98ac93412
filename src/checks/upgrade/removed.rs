//! What the components of the control plane do not accept any more, by minor version of Kubernetes 1, as facts.
//!
//! Of 2026-11-23, from the sources of Kubernetes 1.30.0 to 1.37.0: feature gates from the list of each version that its own tests
//! compare with the code (`versioned_feature_list.yaml`, for 1.31 and 1.32 from the code itself), admission plugins from that of
//! kube-apiserver's options, and flags from its changelogs, compared with the options of each component. `e2e/removed` compares it all
//! with the programs of 1.34 and 1.35.

use std::ops::RangeInclusive;

/// Minor versions to which the tables say all that is gone.
pub(super) const KNOWN: RangeInclusive<u32> = 31..=37;
/// The same for people.
pub(super) const KNOWN_WORDS: &str = "1.31 to 1.37";

/// Flags that are gone as of a minor version, by component.
pub(super) const FLAGS: &[(u32, &str, &[&str])] = &[
    (
        31,
        "kube-controller-manager",
        &[
            "horizontal-pod-autoscaler-downscale-delay",
            "horizontal-pod-autoscaler-upscale-delay",
            "volume-host-allow-local-loopback",
            "volume-host-cidr-denylist",
        ],
    ),
    (31, "kubelet", &["iptables-drop-bit", "iptables-masquerade-bit", "keep-terminated-pod-volumes"]),
    (33, "kube-apiserver", &["cloud-config", "cloud-provider"]),
    (34, "kubelet", &["cloud-config", "register-schedulable"]),
    (35, "kubelet", &["pod-infra-container-image"]),
    (37, "kube-controller-manager", &["concurrent-service-syncs"]),
    // Of cAdvisor, which the kubelet no longer registers.
    (
        37,
        "kubelet",
        &[
            "application-metrics-count-limit",
            "boot-id-file",
            "container-hints",
            "containerd",
            "containerd-namespace",
            "enable-load-reader",
            "event-storage-age-limit",
            "event-storage-event-limit",
            "global-housekeeping-interval",
            "log-cadvisor-usage",
            "machine-id-file",
            "storage-driver-buffer-duration",
            "storage-driver-db",
            "storage-driver-host",
            "storage-driver-password",
            "storage-driver-secure",
            "storage-driver-table",
            "storage-driver-user",
        ],
    ),
];

/// Admission plugins of kube-apiserver that are gone as of a minor version.
pub(super) const PLUGINS: &[(u32, &[&str])] = &[
    (30, &["SecurityContextDeny"]),
    (31, &["PersistentVolumeLabel"]),
    (37, &["JobValidation", "PodGroupWorkloadExists"]),
];

/// Versions of APIs that kube-apiserver does not know any more as of a minor version, while their group remains: who names one in
/// `--runtime-config`, whatever its value, does not start. From the published modules of `k8s.io/api`, 0.30 to 0.37.
pub(super) const APIS: &[(u32, &[&str])] = &[
    (31, &["resource.k8s.io/v1alpha2"]),
    (32, &["coordination.k8s.io/v1alpha1"]),
    (34, &["networking.k8s.io/v1alpha1"]),
    (35, &["storagemigration.k8s.io/v1alpha1"]),
    (36, &["autoscaling/v2beta1", "autoscaling/v2beta2", "scheduling.k8s.io/v1alpha1"]),
    (37, &["scheduling.k8s.io/v1alpha2"]),
];

/// Feature gates that are gone as of a minor version: who names one, whatever its value, does not start.
pub(super) const GATES: &[(u32, &[&str])] = &[
    (
        31,
        &[
            "APIPriorityAndFairness",
            "CSIMigrationRBD",
            "CSINodeExpandSecret",
            "ConsistentHTTPGetHandlers",
            "CustomResourceValidationExpressions",
            "DefaultHostNetworkHostPortsInPodTemplates",
            "InTreePluginAWSUnregister",
            "InTreePluginAzureDiskUnregister",
            "InTreePluginAzureFileUnregister",
            "InTreePluginGCEUnregister",
            "InTreePluginOpenStackUnregister",
            "InTreePluginRBDUnregister",
            "InTreePluginvSphereUnregister",
            "JobReadyPods",
            "ReadWriteOncePod",
            "ServiceNodePortStaticSubrange",
            "SkipReadOnlyValidationGCE",
        ],
    ),
    (
        32,
        &[
            "CloudDualStackNodeIPs",
            "DRAControlPlaneController",
            "HPAContainerMetrics",
            "KMSv2",
            "KMSv2KDF",
            "LegacyServiceAccountTokenCleanUp",
            "MinDomainsInPodTopologySpread",
            "NewVolumeManagerReconstruction",
            "NodeOutOfServiceVolumeDetach",
            "PodHostIPs",
            "ServerSideApply",
            "ServerSideFieldValidation",
            "StableLoadBalancerNodeSet",
            "ValidatingAdmissionPolicy",
            "ZeroLimitedNominalConcurrencyShares",
        ],
    ),
    (
        33,
        &[
            "APIListChunking",
            "AdmissionWebhookMatchConditions",
            "AggregatedDiscoveryEndpoint",
            "AppArmor",
            "AppArmorFields",
            "CPUManager",
            "DisableCloudProviders",
            "DisableKubeletCloudCredentialProviders",
            "EfficientWatchResumption",
            "JobPodFailurePolicy",
            "KubeProxyDrainingTerminatingNodes",
            "PDBUnhealthyPodEvictionPolicy",
            "PersistentVolumeLastPhaseTransitionTime",
            "RemainingItemCount",
            "VolumeCapacityPriority",
            "WatchBookmark",
        ],
    ),
    (
        34,
        &[
            "DevicePluginCDIDevices",
            "ElasticIndexedJob",
            "LegacySidecarContainers",
            "PodDisruptionConditions",
            "StatefulSetStartOrdinal",
        ],
    ),
    (
        35,
        &[
            "AllowServiceLBStatusOnNonLB",
            "ComponentSLIs",
            "CronJobsScheduledAnnotation",
            "LoadBalancerIPMode",
            "PodIndexLabel",
            "ProbeHostPodSecurityStandards",
            "SizeMemoryBackedVolumes",
            "StatefulSetAutoDeletePVC",
            "StrictCostEnforcementForVAP",
            "StrictCostEnforcementForWebhooks",
            "UserNamespacesPodSecurityStandards",
        ],
    ),
    (
        36,
        &[
            "CSIMigrationPortworx",
            "HonorPVReclaimPolicy",
            "InPlacePodVerticalScalingAllocatedStatus",
            "InTreePluginPortworxUnregister",
            "MemoryManager",
            "ServiceTrafficDistribution",
            "StructuredAuthorizationConfiguration",
            "TopologyAwareHints",
            "WatchFromStorageWithoutResourceVersion",
        ],
    ),
    (
        37,
        &[
            "APIServerTracing",
            "AnonymousAuthConfigurableEndpoints",
            "AnyVolumeDataSource",
            "AuthorizeNodeWithSelectors",
            "AuthorizeWithSelectors",
            "BtreeWatchCache",
            "ConsistentListFromCache",
            "GangScheduling",
            "JobBackoffLimitPerIndex",
            "JobPodReplacementPolicy",
            "JobSuccessPolicy",
            "LogarithmicScaleDown",
            "OrderedNamespaceDeletion",
            "PodLifecycleSleepAction",
            "PodLifecycleSleepActionAllowZero",
            "PreventStaticPodAPIReferences",
            "RelaxedDNSSearchValidation",
            "ResilientWatchCacheInitialization",
            "RetryGenerateName",
            "SchedulerQueueingHints",
            "SidecarContainers",
            "StreamingCollectionEncodingToJSON",
            "StreamingCollectionEncodingToProtobuf",
            "StructuredAuthenticationConfiguration",
            "WorkloadAwarePreemption",
        ],
    ),
];

/// Feature gates that cannot be switched off any more as of a minor version.
pub(super) const LOCKED_ON: &[(u32, &[&str])] = &[
    (
        31,
        &[
            "AppArmor",
            "AppArmorFields",
            "DevicePluginCDIDevices",
            "DisableCloudProviders",
            "DisableKubeletCloudCredentialProviders",
            "ElasticIndexedJob",
            "JobPodFailurePolicy",
            "KubeProxyDrainingTerminatingNodes",
            "LogarithmicScaleDown",
            "PDBUnhealthyPodEvictionPolicy",
            "PersistentVolumeLastPhaseTransitionTime",
            "PodDisruptionConditions",
            "StatefulSetStartOrdinal",
        ],
    ),
    (
        32,
        &[
            "ComponentSLIs",
            "CronJobsScheduledAnnotation",
            "CustomResourceFieldSelectors",
            "LoadBalancerIPMode",
            "MemoryManager",
            "PodIndexLabel",
            "RetryGenerateName",
            "ServiceAccountTokenJTI",
            "ServiceAccountTokenNodeBindingValidation",
            "ServiceAccountTokenPodNodeInfo",
            "SizeMemoryBackedVolumes",
            "StatefulSetAutoDeletePVC",
            "StrictCostEnforcementForVAP",
            "StrictCostEnforcementForWebhooks",
            "StructuredAuthorizationConfiguration",
        ],
    ),
    (
        33,
        &[
            "AnyVolumeDataSource",
            "BtreeWatchCache",
            "CPUManagerPolicyOptions",
            "CRDValidationRatcheting",
            "CSIMigrationPortworx",
            "HonorPVReclaimPolicy",
            "JobBackoffLimitPerIndex",
            "JobSuccessPolicy",
            "MatchLabelKeysInPodAffinity",
            "NFTablesProxyMode",
            "NodeInclusionPolicyInPodTopologySpread",
            "RecursiveReadOnlyMounts",
            "ServiceAccountTokenNodeBinding",
            "ServiceTrafficDistribution",
            "SidecarContainers",
            "TopologyAwareHints",
        ],
    ),
    (
        34,
        &[
            "APIServerTracing",
            "AnonymousAuthConfigurableEndpoints",
            "AuthorizeNodeWithSelectors",
            "AuthorizeWithSelectors",
            "ConsistentListFromCache",
            "JobPodReplacementPolicy",
            "KubeletCgroupDriverFromCRI",
            "KubeletTracing",
            "MultiCIDRServiceAllocator",
            "NodeSwap",
            "OrderedNamespaceDeletion",
            "PodLifecycleSleepAction",
            "PodLifecycleSleepActionAllowZero",
            "ProbeHostPodSecurityStandards",
            "RecoverVolumeExpansionFailure",
            "RelaxedDNSSearchValidation",
            "RelaxedEnvironmentVariableValidation",
            "ResilientWatchCacheInitialization",
            "SchedulerQueueingHints",
            "SeparateTaintEvictionController",
            "StreamingCollectionEncodingToJSON",
            "StreamingCollectionEncodingToProtobuf",
            "StructuredAuthenticationConfiguration",
            "WinDSR",
            "WinOverlay",
        ],
    ),
    (
        35,
        &[
            "AggregatedDiscoveryRemoveBetaType",
            "DisableAllocatorDualWrite",
            "DynamicResourceAllocation",
            "ExecProbeTimeout",
            "ImageMaximumGCAge",
            "InPlacePodVerticalScaling",
            "JobManagedBy",
            "PodObservedGenerationTracking",
            "PreferSameTrafficDistribution",
            "SupplementalGroupsPolicy",
            "SystemdWatchdog",
        ],
    ),
    (
        36,
        &[
            "CSIServiceAccountTokenSecrets",
            "DRAAdminAccess",
            "DeclarativeValidation",
            "DisableNodeKubeProxyVersion",
            "ExternalServiceAccountTokenSigner",
            "ImageVolume",
            "KubeletFineGrainedAuthz",
            "KubeletPSI",
            "KubeletPodResourcesDynamicResources",
            "KubeletPodResourcesGet",
            "MutableCSINodeAllocatableCount",
            "NodeLogQuery",
            "ProcMountType",
            "SELinuxChangePolicy",
            "SELinuxMountReadWriteOncePod",
            "TopologyManagerPolicyOptions",
            "UserNamespacesSupport",
            "VolumeAttributesClass",
        ],
    ),
    (
        37,
        &[
            "DRAExtendedResource",
            "DRAPrioritizedList",
            "DRAResourceClaimDeviceStatus",
            "DisableCPUQuotaWithExclusiveCPUs",
            "HPAConfigurableTolerance",
            "HostnameOverride",
            "InPlacePodVerticalScalingInitContainers",
            "NodeDeclaredFeatures",
            "PLEGOnDemandRelist",
            "PodReadyToStartContainersCondition",
            "RelaxedServiceNameValidation",
            "WatchCacheInitializationPostStartHook",
        ],
    ),
];

/// Feature gates that cannot be switched on any more as of a minor version.
pub(super) const LOCKED_OFF: &[(u32, &[&str])] = &[
    (32, &["AllowServiceLBStatusOnNonLB"]),
    (33, &["WatchFromStorageWithoutResourceVersion"]),
    (35, &["AllowOverwriteTerminationGracePeriodSeconds"]),
    (36, &["GitRepoVolumeDriver", "SeparateCacheWatchRPC"]),
    (37, &["DeclarativeValidationTakeover"]),
];

/// Since which minor version, up to `target`, the table has this name.
pub(super) fn since(table: &[(u32, &[&str])], name: &str, target: u32) -> Option<u32> {
    table.iter().find(|(minor, names)| *minor <= target && names.contains(&name)).map(|(minor, _)| *minor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_are_in_order_and_say_nothing_twice() {
        for table in [PLUGINS, GATES, LOCKED_ON, LOCKED_OFF] {
            assert!(table.is_sorted_by_key(|(minor, _)| *minor));
            let mut names: Vec<_> = table.iter().flat_map(|(_, names)| *names).collect();
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), all);
            assert!(table.iter().all(|(minor, _)| minor <= KNOWN.end()));
        }
        assert_eq!(KNOWN_WORDS, format!("1.{} to 1.{}", KNOWN.start(), KNOWN.end()));
        assert!(KNOWN.into_iter().all(|minor| GATES.iter().any(|(it, _)| *it == minor)), "none is left out");
    }

    #[test]
    fn all_flags_of_cadvisor_are_there() {
        let (_, _, flags) = FLAGS.iter().find(|(minor, of, _)| (*minor, *of) == (37, "kubelet")).unwrap();
        assert_eq!(flags.len(), 18, "as the changelog counts them");
        assert!(flags.is_sorted());
    }

    #[test]
    fn a_name_is_gone_from_its_version_on() {
        assert_eq!(since(GATES, "SidecarContainers", 36), None);
        assert_eq!(since(GATES, "SidecarContainers", 37), Some(37));
        assert_eq!(since(GATES, "AppArmor", 37), Some(33));
        assert_eq!(since(LOCKED_ON, "SidecarContainers", 35), Some(33));
        assert_eq!(since(LOCKED_ON, "TopologyManagerPolicyOptions", 35), None);
        assert_eq!(since(LOCKED_ON, "TopologyManagerPolicyOptions", 36), Some(36));
        assert_eq!(since(PLUGINS, "SecurityContextDeny", 36), Some(30));
    }
}
