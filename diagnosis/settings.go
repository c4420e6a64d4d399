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
	Values  []SettingValue `json:"values"` // values of most nodes first
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

// Differences compares the settings of nodes. A node without a setting is ignored for it: the node
// may be a gateway, or run another version.
func Differences(all []SettingsOf) []Difference {
	if same := func(n SettingsOf) bool { return maps.Equal(n.Settings, all[0].Settings) }; !slices.ContainsFunc(all, func(n SettingsOf) bool { return !same(n) }) {
		return nil
	}
	byName := map[string]map[string][]string{} // setting, value, nodes
	for _, n := range all {
		for name, value := range n.Settings {
			if byName[name] == nil {
				byName[name] = map[string][]string{}
			}
			byName[name][value] = append(byName[name][value], n.Node)
		}
	}
	var out []Difference
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if len(byName[name]) < 2 || len(out) == maxDifferences {
			continue
		}
		d := Difference{Setting: name}
		for value, nodes := range byName[name] {
			slices.Sort(nodes)
			d.Values = append(d.Values, SettingValue{Value: value, Nodes: nodes})
		}
		slices.SortFunc(d.Values, func(a, b SettingValue) int {
			return cmp.Or(cmp.Compare(len(b.Nodes), len(a.Nodes)), cmp.Compare(a.Nodes[0], b.Nodes[0]))
		})
		d.Values = d.Values[:min(len(d.Values), maxValues)]
		out = append(out, d)
	}
	return out
}

// decidesKey reports whether the setting determines the key of a request.
func decidesKey(setting string) bool {
	return slices.Contains([]string{"key", "routes", "on-missing-key", "trusted-proxies"}, setting)
}

// settingFindings returns the findings about settings that differ between nodes.
func settingFindings(differences []Difference) (out []Finding) {
	for _, d := range differences {
		var texts []string
		for _, v := range d.Values {
			value := "none"
			if v.Value != "" {
				value = strconv.Quote(v.Value)
			}
			texts = append(texts, list(v.Nodes)+" "+hasOrHave(len(v.Nodes))+" "+value)
		}
		f := Finding{
			Code: ConfigDiffers, Severity: Info, Subject: d.Setting, Text: "setting " + d.Setting + " differs: " + strings.Join(texts, ", "),
			Brief:  fmt.Sprintf("setting %s differs between nodes", d.Setting),
			Remedy: "give all nodes the same " + d.Setting + ": `shardway check --against ADMIN` compares a configuration file with the cluster's",
		}
		if decidesKey(d.Setting) {
			f.Severity = Warning
		}
		out = append(out, f)
	}
	return out
}
