package cli_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"shardway/admin/api"
	"shardway/shardmap"
)

func (c *policyCluster) Mark(_, key string) (shard uint32, hash string, err error) {
	return uint32(shardmap.ShardOf(key, 3)), fmt.Sprintf("%016x", len(key)), nil
}

func TestQuarantine(t *testing.T) {
	c := &policyCluster{cluster: &cluster{done: make(chan api.Action, 1)}}
	addr := serveCluster(t, c)
	alice := uint32(shardmap.ShardOf("alice", 3))
	for _, tc := range []struct {
		line, says string
		want       api.Action
	}{
		{"quarantine alice", "is in quarantine until", api.Action{Verb: api.Quarantine, Shard: alice, Hash: "0000000000000005"}},
		{"quarantine alice --for 1h", "is in quarantine for 1h", api.Action{Verb: api.Quarantine, Shard: alice, Hash: "0000000000000005", For: "1h"}},
		{"quarantine --shard 0 --hash 0123456789abcdef", "key_hash 0123456789abcdef of shard 0", api.Action{Verb: api.Quarantine, Hash: "0123456789abcdef"}},
		{"quarantine alice --lift", "is served again", api.Action{Verb: api.Lift, Shard: alice, Hash: "0000000000000005"}},
	} {
		code, out, errOut := run(t, tc.line+" --admin="+addr)
		if code != 0 || !strings.Contains(out, tc.says) {
			t.Errorf("%s: exit %d, %s%s", tc.line, code, out, errOut)
			continue
		}
		got := <-c.done
		got.By = ""
		if !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s did %+v, want %+v", tc.line, got, tc.want)
		}
	}
	for line, want := range map[string]string{
		"quarantine alice --shard 1":                   "not both",
		"quarantine --hash 0123456789abcdef":           "go together",
		"quarantine alice --lift --for 1h":             "omit --for",
		"quarantine --lift":                            "need a key",
		"quarantine alice --for ever":                  "is not a duration",
		"quarantine --shard 9 --hash 0123456789abcdef": "is not a shard of this cluster",
	} {
		exit := 2
		if strings.HasPrefix(want, "is not ") {
			exit = 1 // the node reports the error
		}
		if code, _, errOut := run(t, line+" --admin="+addr); code != exit || !strings.Contains(errOut, want) {
			t.Errorf("%s: exit %d, %q, want %q", line, code, errOut, want)
		}
	}
	_, out, _ := run(t, "quarantine --admin="+addr)
	if want := "2      00000000000000aa  1h   refused"; !strings.Contains(out, want) {
		t.Errorf("the list is\n%s, want a line %q", out, want)
	}
	if !strings.Contains(out, "not refused") {
		t.Errorf("the list does not name the key that is not refused:\n%s", out)
	}
}
