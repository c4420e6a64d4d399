package eventlog

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"shardway/ack"
	"shardway/event"
	"shardway/node/consensus"
	"shardway/node/gossip"
)

// news returns the events that were added to a ring since the last call.
func news(c *event.Cursor) string {
	events, _ := c.Next(1 << 20)
	var words []string
	for _, e := range events {
		words = append(words, e.Kind.String()+" "+e.Node)
	}
	return strings.Join(words, ", ")
}

func TestNodeWatcherRecordsEachChangeOnce(t *testing.T) {
	w := NewNodeWatcher("a", event.NewRing(event.Options{RunID: 7}), zerolog.Nop())
	c, err := w.ring.Read("")
	if err != nil {
		t.Fatal(err)
	}
	member := func(id string, s gossip.Status) gossip.Member { return gossip.Member{ID: id, Node: true, Status: s} }
	a, b := member("a", gossip.Alive), member("b", gossip.Alive)
	for _, tt := range []struct {
		what            string
		members         []gossip.Member
		voters, servers []string
		want            string
	}{
		{"alone", []gossip.Member{a}, nil, nil, "node-joined a"},
		{"it founds", []gossip.Member{a}, []string{"a/1"}, nil, "node-voter a"},
		{"another comes, and somebody who is no node", []gossip.Member{a, b, {ID: "db", Status: gossip.Alive}}, []string{"a/1"}, []string{"b/1"}, "node-joined b"},
		{"it gets a vote", []gossip.Member{a, b}, []string{"a/1", "b/1"}, nil, "node-voter b"},
		{"it leaves", []gossip.Member{a, member("b", gossip.Leaving)}, []string{"a/1", "b/1"}, nil, ""},
		{"it has left", []gossip.Member{a, member("b", gossip.Left)}, []string{"a/1", "b/1"}, nil, "node-left b"},
		{"it is back", []gossip.Member{a, b}, []string{"a/1", "b/1"}, nil, "node-rejoined b"},
		{"its disk is another", []gossip.Member{a, b}, []string{"a/1"}, []string{"b/2"}, "node-nonvoter b"},
		{"it fails", []gossip.Member{a, member("b", gossip.Failed)}, []string{"a/1"}, []string{"b/2"}, "node-failed b"},
		{"gossip forgets it", []gossip.Member{a}, []string{"a/1"}, []string{"b/2"}, ""},
		{"Raft too", []gossip.Member{a}, []string{"a/1"}, nil, "node-removed b"},
		{"nothing happens", []gossip.Member{a}, []string{"a/1"}, nil, ""},
		{"it comes anew", []gossip.Member{a, b}, []string{"a/1"}, nil, "node-joined b"},
	} {
		var servers []consensus.Server
		for _, id := range tt.voters {
			servers = append(servers, consensus.Server{ID: id, Voter: true})
		}
		for _, id := range tt.servers {
			servers = append(servers, consensus.Server{ID: id})
		}
		w.Observe(slices.Clone(tt.members), servers, ack.NewState())
		if got := news(c); got != tt.want {
			t.Errorf("%s: told %q, want %q", tt.what, got, tt.want)
		}
	}
}

// A restart in place is reported as such, and not as a node that joins or rejoins.
func TestRestartInPlaceIsNotARejoin(t *testing.T) {
	t.Parallel()
	w := NewNodeWatcher("a", event.NewRing(event.Options{RunID: 7}), zerolog.Nop())
	c, err := w.ring.Read("")
	if err != nil {
		t.Fatal(err)
	}
	state := ack.NewState()
	apply := func(entry []byte) {
		next, _, err := state.Apply(state.Index()+1, 1, entry)
		if err != nil {
			t.Fatal(err)
		}
		state = next
	}
	restart := func(grace time.Duration) {
		apply(ack.EncodeRestart(ack.MinFormatVersion, ack.RestartEntry{Term: 1, Node: "b", Boot: 1, Grace: grace}))
	}
	observe := func(status gossip.Status, want string) {
		t.Helper()
		w.Observe([]gossip.Member{{ID: "b", Node: true, Status: status}}, nil, state)
		if got := news(c); got != want {
			t.Errorf("reported %q, want %q", got, want)
		}
	}
	log := &mapLog{t: t, state: state}
	log.apply(ack.EncodeBootstrap("c1", 8, ack.DefaultTiming()), ack.OutcomeBootstrapped)
	log.propose("join", "b")
	log.commit()
	state = log.state
	observe(gossip.Alive, "node-joined b")
	restart(time.Minute)
	observe(gossip.Alive, "node-restarting b")
	observe(gossip.Failed, "node-failed b")
	observe(gossip.Alive, "")
	restart(0)
	observe(gossip.Alive, "node-restarted b")
	observe(gossip.Failed, "node-failed b")
	observe(gossip.Alive, "node-rejoined b")
}
