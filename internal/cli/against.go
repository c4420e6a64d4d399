package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"shardway/config"
	"shardway/diagnosis"
)

// errConfigDiffers is the result of a check whose configuration differs from the cluster. The command has
// printed each difference.
var errConfigDiffers = errors.New("cli: the configuration differs from the cluster's")

// cutAgainstFlag removes --against ADDR from args. addr is empty if args do not contain the flag.
func cutAgainstFlag(args []string) (rest []string, addr string, err error) {
	for i := 0; i < len(args); i++ {
		value, inline := strings.CutPrefix(args[i], "--against=")
		switch {
		case inline:
		case args[i] != "--against":
			rest = append(rest, args[i])
			continue
		case i+1 == len(args) || strings.HasPrefix(args[i+1], "--"):
			value = ""
		default:
			i++
			value = args[i]
		}
		if value == "" {
			return nil, "", usageError("--against needs the admin address of a node, as in 127.0.0.1:8081")
		}
		addr = value
	}
	return rest, addr, nil
}

// difference is a setting whose local value differs from the value at a node of the cluster.
type difference struct {
	Setting       string                   `json:"setting"`
	Value         string                   `json:"value"`
	Origin        string                   `json:"from"`
	ClusterValues []diagnosis.SettingValue `json:"cluster"`
}

// String returns one line of text output.
func (d difference) String() string {
	values := make([]string, len(d.ClusterValues))
	for i, value := range d.ClusterValues {
		values[i] = strconv.Quote(value.Value) + " at " + strings.Join(value.Nodes, ", ")
	}
	return fmt.Sprintf("differs: %s = %q (%s); the cluster has %s", d.Setting, d.Value, d.Origin, strings.Join(values, " and "))
}

// compareWithCluster returns the settings of cfg whose value differs from the value at a node of the
// cluster. addr is the admin address of one node. Without credentials in the environment, it uses the
// token file of the settings.
func compareWithCluster(ctx context.Context, session *session, cfg *config.Config, addr string) ([]difference, error) {
	t := target{Admin: addr}
	if variable(session.environ, "SHARDWAY_TOKEN_FILE") == "" {
		t.TokenFile = cmp.Or(cfg.AdminReadTokenFile, cfg.AdminWriteTokenFile)
	}
	client, err := t.clientOf(session, "--against")
	if err != nil {
		return nil, err
	}
	defer client.Close()
	checkup, err := client.Checkup(ctx, false)
	if err != nil {
		return nil, err
	}
	return compareSettings(cfg, checkup), nil
}

// compareSettings returns the settings of cfg that differ from those reported by any node.
func compareSettings(cfg *config.Config, checkup diagnosis.Checkup) (differences []difference) {
	localSettings := cfg.ClusterSettings()
	for _, name := range slices.Sorted(maps.Keys(localSettings)) {
		nodesByValue := map[string][]string{}
		for _, report := range checkup.Reports {
			if value, ok := report.Settings[name]; ok && value != localSettings[name] {
				nodesByValue[value] = append(nodesByValue[value], report.Node)
			}
		}
		if len(nodesByValue) == 0 {
			continue
		}
		diff := difference{Setting: name, Value: localSettings[name], Origin: cfg.Origin(name)}
		for _, value := range slices.Sorted(maps.Keys(nodesByValue)) {
			diff.ClusterValues = append(diff.ClusterValues, diagnosis.SettingValue{Value: value, Nodes: nodesByValue[value]})
		}
		differences = append(differences, diff)
	}
	return differences
}
