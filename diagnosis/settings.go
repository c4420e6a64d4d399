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
