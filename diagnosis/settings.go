package diagnosis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// SettingsOf contains the settings of one node that must be the same on all nodes, by name.
type SettingsOf struct {
	Node     string            `json:"node"`
	Settings map[string]string `json:"settings"`
}

// Difference is a setting that is not the same on all nodes.
type Difference struct {
	Setting string         `json:"setting"`
	Values  []SettingValue `json:"values"` // in descending order of the number of their nodes
}

// SettingValue is a value of a setting, and the nodes that have it, sorted.
type SettingValue struct {
	Value string   `json:"value"`
	Nodes []string `json:"nodes"`
}

// ServiceConflict is a service that has another number of shards in the configuration of a node than in the cluster.
type ServiceConflict struct {
	Service             string
	Configured, Cluster int
}

// UnstartedService is a service that no node has run yet. Its shards have never had an owner.
type UnstartedService struct {
	Service  string
	Shards   int
	IsRouted bool // the active key configuration contains the service
}

// maxDifferences and maxValues limit the result of Differences.
const (
	maxDifferences = 64
	maxValues      = 8
)

// Differences compares the settings of nodes. A missing setting is not a difference, because the node may be a gateway,
// or run another version.
func Differences(all []SettingsOf) []Difference {
	differsFromFirst := func(node SettingsOf) bool { return !maps.Equal(node.Settings, all[0].Settings) }
	if !slices.ContainsFunc(all, differsFromFirst) {
		return nil
	}
	byName := map[string]map[string][]string{} // setting, value, nodes
	for _, node := range all {
		for name, value := range node.Settings {
			if byName[name] == nil {
				byName[name] = map[string][]string{}
			}
			byName[name][value] = append(byName[name][value], node.Node)
		}
	}
	var differences []Difference
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if len(byName[name]) < 2 || len(differences) == maxDifferences {
			continue
		}
		differences = append(differences, Difference{Setting: name, Values: sortedValues(byName[name])})
	}
	return differences
}

// sortedValues returns up to maxValues values of a setting, in descending order of the number of their nodes.
func sortedValues(nodesByValue map[string][]string) []SettingValue {
	var values []SettingValue
	for value, nodes := range nodesByValue {
		slices.Sort(nodes)
		values = append(values, SettingValue{Value: value, Nodes: nodes})
	}
	slices.SortFunc(values, func(a, b SettingValue) int {
		return cmp.Or(cmp.Compare(len(b.Nodes), len(a.Nodes)), cmp.Compare(a.Nodes[0], b.Nodes[0]))
	})
	return values[:min(len(values), maxValues)]
}

// decidesKey reports whether the setting determines the key of a request.
func decidesKey(setting string) bool {
	return slices.Contains([]string{"key", "routes", "on-missing-key", "cookie", "trusted-proxies"}, setting)
}

// settingFindings returns the findings about settings that differ between nodes.
func settingFindings(differences []Difference) (findings []Finding) {
	for _, difference := range differences {
		var texts []string
		for _, value := range difference.Values {
			text := "none"
			if value.Value != "" {
				text = strconv.Quote(value.Value)
			}
			texts = append(texts, joinNames(value.Nodes)+" "+hasOrHave(len(value.Nodes))+" "+text)
		}
		finding := Finding{
			Code: ConfigDiffers, Severity: Info, Subject: difference.Setting, Text: "setting " + difference.Setting + " differs: " + strings.Join(texts, ", "),
			Brief:  fmt.Sprintf("setting %s differs between nodes", difference.Setting),
			Remedy: "give all nodes the same " + difference.Setting + ": `shardway check --against ADMIN` compares a configuration file with the cluster's",
		}
		if decidesKey(difference.Setting) {
			finding.Severity = Warning
		}
		findings = append(findings, finding)
	}
	return findings
}

// serviceConflictFindings reports services whose numbers of shards differ between this node and the cluster.
func serviceConflictFindings(in Inputs) (findings []Finding) {
	for _, conflict := range in.ServiceConflicts {
		findings = append(findings, Finding{
			Code: ServiceShardsDiffer, Severity: Warning, Subject: conflict.Service,
			Text:   fmt.Sprintf("service %s has %d shards in the cluster, and %d in the configuration of node %s", conflict.Service, conflict.Cluster, conflict.Configured, in.Self),
			Remedy: fmt.Sprintf("set services.%s.shards to %d on node %s and reload its configuration, because the node cannot start again with another number", conflict.Service, conflict.Cluster, in.Self),
		})
	}
	return findings
}

// unstartedServiceFindings reports services that no node has run yet.
func unstartedServiceFindings(in Inputs) (findings []Finding) {
	for _, service := range in.UnstartedServices {
		finding := Finding{
			Code: ServiceNotStarted, Severity: Info, Subject: service.Service,
			Text:   fmt.Sprintf("no node has run service %s yet, so its %s %s no owner", service.Service, pluralize(service.Shards, "shard"), hasOrHave(service.Shards)),
			Remedy: fmt.Sprintf("set services.%s.upstream on the nodes that must run it, and restart them", service.Service),
		}
		if service.IsRouted {
			finding.Severity = Warning
			finding.Text = fmt.Sprintf("no node has run service %s yet, so its requests wait", service.Service)
		}
		findings = append(findings, finding)
	}
	return findings
}
