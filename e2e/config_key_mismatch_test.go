//go:build linux

package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"shardway/diagnosis"
	"shardway/e2e/kit/cluster"
	"shardway/node/control"
)

// TestDifferentKeySourcesAreReported starts nodes with different keys. Every node, doctor
// and check report them until all nodes have loaded the same key.
func TestDifferentKeySourcesAreReported(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(file, []byte("key: [header:X-Shard-Key]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := start(t, 3, "--config", file)
	w, nodes := diagnosisTest{t, c}, c.Nodes()
	const next = "key: [query:t, header:X-Shard-Key]\n"
	reloadConfig(t, nodes[2], file, next, "settings reloaded", `"changed":["key"]`)

	ids := []string{nodes[0].ID, nodes[1].ID, nodes[2].ID}
	text := "setting key differs: " + ids[0] + " and " + ids[1] + ` have "header:x-shard-key", ` + ids[2] + ` has "query:t,header:x-shard-key"`
	for _, node := range nodes {
		w.wantFinding(node, diagnosis.ConfigDiffers, text)
	}
	if code, out := w.run(nodes[0], "doctor"); code != 0 || !strings.Contains(out, "WARNING config-differs: "+text) {
		t.Errorf("doctor: exit %d\n%s", code, out)
	}
	if code, out := w.check(file, nodes[2]); code != 1 || !strings.Contains(out, `differs: key = "query:t,header:x-shard-key"`) || !strings.Contains(out, `"header:x-shard-key" at `+ids[0]+", "+ids[1]) {
		t.Errorf("check: exit %d\n%s", code, out)
	}

	for _, node := range nodes[:2] {
		reloadConfig(t, node, file, next, "settings reloaded", `"changed":["key"]`)
	}
	for _, node := range nodes {
		node.AwaitStatus(t, "no difference", func(status cluster.Status) bool {
			return !slices.ContainsFunc(status.Findings, func(finding diagnosis.Finding) bool { return finding.Code == diagnosis.ConfigDiffers })
		})
	}
	// The node repeats the reports that it collected for doctor for up to control.CacheTime.
	for end := time.Now().Add(10 * control.CacheTime); ; time.Sleep(100 * time.Millisecond) {
		code, out := w.check(file, nodes[0])
		if code == 0 && !strings.Contains(out, "differs: ") {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("check: exit %d\n%s", code, out)
		}
	}
}

// check runs the command check on a configuration file against the cluster of a node.
func (w diagnosisTest) check(file string, against *cluster.Node) (code int, out string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), binaries(w.t).Node, "check", "--config", file, "--against", against.Admin)
	b, err := cmd.Output()
	if err != nil && cmd.ProcessState == nil {
		w.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(b)
}
