package cli_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// Each log line contains the node and the cluster. Once, only one line of hundreds did. Also, a
// restart logged all shards that the node had before as gained, and no line reported the end of the
// process.
func TestEachLogLineContainsNodeAndCluster(t *testing.T) {
	t.Parallel()
	n := start(t, app(t))
	for life := range 2 {
		if life > 0 {
			n.launch(t)
		}
		n.get(t, "http://"+n.listen+"/", http.StatusOK)
		if code := n.finish(t); code != 0 {
			t.Fatalf("exit %d\n%s", code, n.log.String())
		}
	}
	var messages []string
	of := ""
	for line := range strings.Lines(n.log.String()) {
		var l struct{ Node, Cluster, Message string }
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if of = max(of, l.Cluster); l.Message == "memory limit set" { // logged before the data directory is open
			continue
		}
		if l.Node != "solo" || l.Cluster != of || strings.Count(line, `"node":`) != 1 {
			t.Errorf("not of node solo in cluster %q, or more: %s", of, line)
		}
		messages = append(messages, l.Message)
	}
	count := func(what string) (n int) {
		for _, m := range messages {
			if m == what {
				n++
			}
		}
		return n
	}
	end := slices.Index(messages, "stopped")
	if count("stopped") != 2 || messages[len(messages)-1] != "stopped" || of == "" {
		t.Errorf("the lives do not end with one line each that says so, or there is no cluster: %q", messages)
	}
	if again := messages[end+1:]; !slices.Contains(again, "previous map read from log") {
		t.Errorf("the restart does not tell what it found: %q", again)
	}
}
