//go:build probe

// Components links one version of Kubernetes and prints what its components accept: flags, feature gates with stage, default and
// lock, and admission plugins. tools/knowledge builds it for each version.
package main

import (
	"fmt"
	"log"
	"os"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/cli/globalflag"
	"k8s.io/component-base/logs"
	"k8s.io/component-base/version/verflag"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app/options"
)

// Main shows what its argument names. Each component is run by itself, as some change the defaults of gates that all share.
func main() {
	switch component := os.Args[1]; component {
	case "gates":
		for gate, spec := range feature.DefaultMutableFeatureGate.GetAll() {
			stage := string(spec.PreRelease)
			if stage == "" {
				stage = "GA"
			}
			fmt.Printf("gate\t%s\t%s\t%v\t%v\n", gate, stage, spec.Default, spec.LockToDefault)
		}
	case "kube-apiserver":
		server := apiserver.NewServerRunOptions()
		sets := server.Flags()
		showSets(component, &sets)
		for _, plugin := range server.Admission.GenericAdmission.Plugins.Registered() {
			fmt.Printf("plugin\t%s\n", plugin)
		}
	case "kube-controller-manager":
		manager, err := controllers.NewKubeControllerManagerOptions()
		if err != nil {
			log.Fatal(err)
		}
		sets := manager.Flags(nil, nil, nil)
		showSets(component, &sets)
	case "kube-scheduler":
		showSets(component, scheduler.NewOptions().Flags)
	case "kubelet":
		config, err := kubelet.NewKubeletConfiguration()
		if err != nil {
			log.Fatal(err)
		}
		flags := pflag.NewFlagSet(component, pflag.ContinueOnError)
		kubelet.NewKubeletFlags().AddFlags(flags)
		kubelet.AddKubeletConfigFlags(flags, config)
		kubelet.AddGlobalFlags(flags)
		show(component, flags)
	}
}

// ShowSets adds what each command adds to its options.
func showSets(component string, sets *cliflag.NamedFlagSets) {
	verflag.AddFlags(sets.FlagSet("global"))
	globalflag.AddGlobalFlags(sets.FlagSet("global"), component, logs.SkipLoggingConfigurationFlags())
	all := pflag.NewFlagSet(component, pflag.ContinueOnError)
	for _, set := range sets.FlagSets {
		all.AddFlagSet(set)
	}
	show(component, all)
}
