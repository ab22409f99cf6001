// Command helm renders charts as Helm does, by its own packages, without its client of Kubernetes: that takes most of the
// time that Helm takes to build, and no test needs it. Directory stubs has what its packages want to see of the client.
//
//	helm template NAME CHART [-f VALUES]... [--namespace NAME] [--api-versions VERSION]...
package main

import (
	"errors"
	"fmt"
	"os"
	"path"
	"sort"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

// kubernetes is the release that charts are rendered for.
const kubernetes = "1.36.0"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "Error:", err)
		os.Exit(1)
	}
}

// order is what the command line asks for.
type order struct {
	words     []string
	values    map[string]interface{}
	namespace string
	versions  []string
}

func run(arguments []string) error {
	asked, err := read(arguments)
	if err != nil {
		return err
	}
	if len(asked.words) == 3 && asked.words[0] == "template" {
		return render(asked.words[1], asked.words[2], asked)
	}
	return errors.New("usage: helm template NAME CHART, with -f, --namespace, --api-versions")
}

func read(arguments []string) (order, error) {
	asked := order{values: map[string]interface{}{}, namespace: "default"}
	for at := 0; at < len(arguments); at++ {
		word := arguments[at]
		if !strings.HasPrefix(word, "-") {
			asked.words = append(asked.words, word)
			continue
		}
		at++
		if at == len(arguments) {
			return asked, fmt.Errorf("%s needs a value", word)
		}
		switch word {
		case "-f":
			more, err := chartutil.ReadValuesFile(arguments[at])
			if err != nil {
				return asked, fmt.Errorf("%s: %w", arguments[at], err)
			}
			// What comes later counts.
			asked.values = chartutil.CoalesceTables(more, asked.values)
		case "--namespace":
			asked.namespace = arguments[at]
		case "--api-versions":
			asked.versions = append(asked.versions, arguments[at])
		default:
			return asked, fmt.Errorf("unknown option %s", word)
		}
	}
	return asked, nil
}

func render(release, name string, asked order) error {
	chart, err := loader.Load(name)
	if err != nil {
		return err
	}
	able := chartutil.DefaultCapabilities.Copy()
	able.KubeVersion = chartutil.KubeVersion{Version: "v" + kubernetes, Major: "1", Minor: strings.Split(kubernetes, ".")[1]}
	able.APIVersions = append(able.APIVersions, asked.versions...)
	if chart.Metadata.KubeVersion != "" && !chartutil.IsCompatibleRange(chart.Metadata.KubeVersion, able.KubeVersion.String()) {
		return fmt.Errorf("chart requires kubeVersion %s, not %s", chart.Metadata.KubeVersion, able.KubeVersion.String())
	}
	options := chartutil.ReleaseOptions{Name: release, Namespace: asked.namespace, Revision: 1, IsInstall: true}
	values, err := chartutil.ToRenderValues(chart, asked.values, options, able)
	if err != nil {
		return err
	}
	files, err := engine.Render(chart, values)
	if err != nil {
		return err
	}
	names := make([]string, 0, len(files))
	for name := range files {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		if strings.HasSuffix(name, ".yaml") && strings.TrimSpace(files[name]) != "" && !strings.HasPrefix(path.Base(name), "_") {
			fmt.Printf("---\n# Source: %s\n%s\n", name, files[name])
		}
	}
	return nil
}
