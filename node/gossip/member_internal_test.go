package gossip

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/hashicorp/serf/serf"
)

// The cached tags of members match their current tags, and contain present members only.
func TestReadingsFollowTheTags(t *testing.T) {
	member := func(name, weight string) serf.Member {
		return serf.Member{Name: name, Addr: []byte{127, 0, 0, 1}, Port: 1, Status: serf.StatusAlive, Tags: map[string]string{
			tagProtocol: strconv.Itoa(protocolVersion), tagNode: name, tagWeight: weight, "ep.http": "127.0.0.1:" + weight,
		}}
	}
	var r tagCache
	for _, all := range [][]serf.Member{
		{member("b", "1"), member("a", "2")},
		{member("a", "2"), member("b", "3")},
		{member("a", "2"), member("b", "x")},
		{member("b", "x")},
		{member("b", "5"), member("c", "4"), member("a", "7")},
		{},
	} {
		want := fmt.Sprintf("%+v", (&tagCache{}).members(all))
		for range 2 {
			if got := fmt.Sprintf("%+v", r.members(all)); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		}
		if len(r.byName) != len(all) {
			t.Errorf("%d members are remembered, want %d", len(r.byName), len(all))
		}
	}
}

// No node can have these names. Serf accepts them, so a program with the gossip key can use them.
func TestMemberWithInvalidNameIsNoNode(t *testing.T) {
	for _, name := range []string{
		"", " ", "n1 ", "n1\n", "n1\x00", "\x1b[31mn1", "\u009b31mn1", "\u202e1n", "n\u0430", "\xff", "n1/2", servicePrefix + "n1", strings.Repeat("n", 65),
	} {
		tags := map[string]string{tagProtocol: strconv.Itoa(protocolVersion), tagNode: name}
		if member := newMember(serf.Member{Name: name, Tags: tags}); member.Node {
			t.Errorf("%q counts as a node", name)
		}
		if want := name == servicePrefix+"n1"; HasValidName(name) != want {
			t.Errorf("HasValidName(%q) = %v", name, !want)
		}
	}
	if member := newMember(serf.Member{Name: "n1", Tags: map[string]string{tagProtocol: strconv.Itoa(protocolVersion), tagNode: "n1"}}); !member.Node || !HasValidName("n1") {
		t.Error("n1 does not count as a node")
	}
}

// Labels that no node announces would control the terminal of an operator, or fill it.
func TestInvalidLabelsAreIgnored(t *testing.T) {
	for _, text := range []string{"\x1b[2J", "x\n", "\u202ex", strings.Repeat("x", 65)} {
		tags, err := decodeTags(map[string]string{tagProtocol: strconv.Itoa(protocolVersion), tagNode: "a", tagZone: text, tagRegion: text, tagVersion: text, tagApp: text})
		if err != nil || tags.Zone+tags.Region+tags.Version+tags.AppVersion != "" {
			t.Errorf("%q: %+v, %v", text, tags, err)
		}
	}
}
