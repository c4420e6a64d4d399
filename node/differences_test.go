package node_test

import (
	"slices"
	"testing"
	"time"

	"shardway/diagnosis"
	"shardway/node"
)

// Every node, gateways included, reports different settings, and clears the finding when they are equal again.
func TestEveryNodeFindsThatSettingsDiffer(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		const key = "header:x-tenant"
		w.tune = func(o *node.Options) {
			o.Settings = map[string]string{"key": key, "drain-timeout": "5s"}
			switch o.Dir.Node() {
			case "c":
				o.Settings["key"] = "query:t"
			case "g":
				o.Gateway, o.CheckApp = true, nil
				o.Settings = map[string]string{"key": key, "drain-timeout": "6s"}
			}
		}
		for _, id := range []string{"a", "b", "c", "g"} {
			w.start(id)
		}
		w.untilSettled("a", "b", "c")
		said := `config-differs: setting key differs: a, b and g have "header:x-tenant", c has "query:t"`
		for _, id := range []string{"a", "b", "c", "g"} {
			w.untilFindingsAre(w.all[id], said, "check --against")
			w.untilFindingsAre(w.all[id], `config-differs: setting drain-timeout differs: a, b and c have "5s", g has "6s"`)
		}
		var first, second diagnosis.Checkup
		w.during(func() {
			first = w.all["a"].node.API().Checkups.Checkup(w.t.Context(), false)
			time.Sleep(3 * time.Second)
			second = w.all["a"].node.API().Checkups.Checkup(w.t.Context(), false)
		})
		w.finds(first, second, said)
		for _, id := range []string{"c", "g"} {
			w.all[id].node.API().ApplySettings(map[string]string{"key": key, "drain-timeout": "5s"})
		}
		for _, id := range []string{"a", "b", "c", "g"} {
			w.untilSettingsAreTheSame(w.all[id])
		}
	})
}

// The settings of a node that is gone are not compared.
func TestSettingsOfANodeThatIsGoneDoNotDiffer(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		w.tune = func(o *node.Options) {
			o.Settings = map[string]string{"key": "ip"}
			if o.Dir.Node() == "d" {
				o.Settings = map[string]string{"key": "host"}
			}
		}
		for _, id := range []string{"a", "b", "c", "d"} {
			w.start(id)
		}
		w.untilSettled("a", "b", "c", "d")
		w.untilFindingsAre(w.all["a"], "config-differs: setting key differs: ")
		w.all["d"].stop()
		w.untilSettingsAreTheSame(w.all["a"])
	})
}

func (w *world) untilSettingsAreTheSame(p *process) {
	w.t.Helper()
	w.until(p.name+" finds no difference", func() bool {
		return !slices.ContainsFunc(p.node.Findings(), func(f diagnosis.Finding) bool { return f.Code == diagnosis.ConfigDiffers })
	})
}
