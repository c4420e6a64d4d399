package gossip

import (
	"maps"
	"strings"
	"testing"

	"github.com/hashicorp/serf/serf"
)

// FuzzTags checks that the tags of any member are decoded without a crash, and that tags that are accepted in full can be encoded again.
func FuzzTags(f *testing.F) {
	seed := Tags{
		Node: "a", Disk: "d1", Cluster: "c1", Shards: 1024, Role: "node", BootstrapExpect: 3, Weight: 5, Zone: "z", Region: "eu", Roles: []string{"app", "db"}, Meta: map[string]string{"rack": "r7"}, Version: "1", AppVersion: "x",
		Endpoints: map[string]string{"http": "10.0.0.1:8080", "peer": "[::1]:7947"},
	}
	m, err := seed.encode()
	if err != nil {
		f.Fatal(err)
	}
	var lines []string
	for k, v := range m {
		lines = append(lines, k+"="+v)
	}
	f.Add(strings.Join(lines, "\n"))
	f.Add("v=1\nshards=99999999999999999999")
	f.Add("v=2\nnode=a")
	f.Add("ep.=x\nep.a=y\nv=")
	f.Fuzz(func(t *testing.T, text string) {
		m := map[string]string{}
		for line := range strings.SplitSeq(text, "\n") {
			k, v, _ := strings.Cut(line, "=")
			m[k] = v
		}
		before := maps.Clone(m)
		tags, err := decodeTags(m)
		mine := &Tags{Cluster: "c1", Shards: 1024}
		_ = checkMember(mine, &serf.Member{Name: "x", Tags: m}) // any result is accepted
		newMember(serf.Member{Name: tags.Node, Tags: m, Status: serf.StatusAlive})
		if !maps.Equal(m, before) {
			t.Fatal("reading tags changed them")
		}
		if err != nil || isOtherProgram(m) {
			return
		}
		if tags.Shards < 0 || tags.BootstrapExpect < 0 {
			t.Fatalf("negative: %+v", tags)
		}
		again, err := tags.encode()
		if err != nil {
			return // longer than memberlist accepts
		}
		back, err := decodeTags(again)
		if err != nil {
			t.Fatalf("%v became %v: %v", m, again, err)
		}
		if back.Node != tags.Node || back.Shards != tags.Shards || back.Weight != tags.Weight || back.Cluster != tags.Cluster {
			t.Fatalf("%+v became %+v", tags, back)
		}
	})
}
