package gossip_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"shardway/internal/raceflag"
	"shardway/node/gossip"
)

func key(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }

func TestGossipOfAnotherSecretStaysOut(t *testing.T) {
	for name, tt := range map[string]struct {
		a, b  [][]byte
		want  string // the error of b
		needs bool   // whether b is the node that needs the secret of a
	}{
		"another key":   {[][]byte{key(1)}, [][]byte{key(2)}, "it has another secret", true},
		"plain joiner":  {[][]byte{key(1)}, nil, "it encrypts its gossip and this node does not", true},
		"plain cluster": {nil, [][]byte{key(2)}, "it does not encrypt its gossip and this node does", false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(s *swarm) {
				s.keys = map[string][][]byte{"a": tt.a, "b": tt.b}
				a := s.add("a", node("a"))
				b := s.add("b", node("b"), s.host("a").Addr(port))
				time.Sleep(20 * time.Second)
				if len(a.Members()) != 1 || len(b.Members()) != 1 {
					t.Errorf("a sees %v, b sees %v: want each alone", a.Members(), b.Members())
				}
				err := b.NoOtherNodeReason()
				if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "--secret-file") {
					t.Errorf("b is told %v, want %q", err, tt.want)
				}
				if tried := b.JoinAttempts(); len(tried) != 1 || tried[0].NeedsSecret() != tt.needs {
					t.Errorf("b has tried %+v, want that it needs a's secret: %v", tried, tt.needs)
				}
			})
		})
	}
}

// Failed joins of a node with another secret are logged once, and then once a minute with a count. Once, the healthy nodes logged a warning
// for each attempt, at least six a minute.
func TestAnotherSecretIsLoggedOnceAMinute(t *testing.T) {
	bubble(t, func(s *swarm) {
		s.keys = map[string][][]byte{"a": {key(1)}, "b": {key(1)}, "c": {key(2)}}
		a := s.add("a", node("a"))
		b := s.add("b", node("b"), s.host("a").Addr(port))
		s.whole(a, b)
		s.lines()
		s.add("c", node("c"), s.host("a").Addr(port), s.host("b").Addr(port))
		const minutes = 5
		time.Sleep(minutes * time.Minute)
		said, left := 0, 0
		for _, line := range s.lines() {
			if !strings.Contains(line, "failed to receive: no installed keys could decrypt") {
				continue
			}
			said++
			if strings.Contains(line, `"suppressed":`) {
				left++
			}
		}
		if most := 2 * (minutes + 1); said == 0 || said > most || left == 0 {
			s.t.Errorf("a and b have %d lines about it in %d minutes, %d with a count: want some and at most %d", said, minutes, left, most)
		}
	})
}

func TestKeysChangeWithoutAGap(t *testing.T) {
	bubble(t, func(s *swarm) {
		old, next := key(1), key(2)
		s.keys = map[string][][]byte{"a": {old}, "b": {old}, "c": {old}}
		all := []*member{s.add("a", node("a")), s.add("b", node("b"), s.host("a").Addr(port)), s.add("c", node("c"), s.host("a").Addr(port))}
		together := func(when string) {
			t.Helper()
			time.Sleep(30 * time.Second)
			for _, m := range all {
				for _, o := range m.Members() {
					if o.Status.String() != "alive" {
						t.Errorf("%s: one sees %s %v", when, o.ID, o.Status)
					}
				}
				if n := len(m.Members()); n != len(all) {
					t.Errorf("%s: one sees %d members, want %d", when, n, len(all))
				}
			}
		}
		together("before")
		for _, keys := range [][][]byte{{old, next}, {next, old}, {next}} {
			for _, m := range all { // one after the other, with time in between
				if err := m.SetKeys(keys); err != nil {
					t.Fatal(err)
				}
				time.Sleep(3 * time.Second)
			}
			together("after a step")
		}
		s.keys["d"] = [][]byte{next}
		all = append(all, s.add("d", node("d"), s.host("b").Addr(port)))
		together("with a newcomer")
		s.keys["e"] = [][]byte{old}
		late := s.add("e", node("e"), s.host("b").Addr(port))
		together("with one who has the old key")
		if n := len(late.Members()); n != 1 {
			t.Errorf("the old key still lets in: %d members", n)
		}
	})
}

func TestKeysAreNotTurnedOnLater(t *testing.T) {
	bubble(t, func(s *swarm) {
		a := s.add("a", node("a"))
		if err := a.SetKeys([][]byte{key(1)}); err == nil || !strings.Contains(err.Error(), "restart") {
			t.Errorf("SetKeys on plain gossip = %v", err)
		}
		s.keys = map[string][][]byte{"b": {key(1)}}
		b := s.add("b", node("b"))
		if err := b.SetKeys(nil); err == nil {
			t.Error("keys were turned off")
		}
		if err := b.SetKeys([][]byte{{1, 2, 3}}); err == nil {
			t.Error("a key of 3 bytes was taken")
		}
	})
}

// Two clusters may have one secret, after a secret file was copied, or after a data directory was emptied and its cluster founded again.
// Only their tags tell them apart. Neither ever has a member of the other, whichever node dials, even if a new node and a member of each
// know both.
func TestClustersWithOneSecretStayApart(t *testing.T) {
	bubble(t, func(s *swarm) {
		t := s.t
		s.keys = map[string][][]byte{}
		clusters := map[string]string{"a1": "one", "a2": "one", "b1": "two", "b2": "two"}
		for name := range clusters {
			s.keys[name] = [][]byte{key(1)}
		}
		s.keys["c"] = [][]byte{key(1)}
		at := func(name string) string { return s.host(name).Addr(port) }
		all := map[string]*member{
			"a1": s.add("a1", inCluster("a1", "one")),
			"b1": s.add("b1", inCluster("b1", "two")),
		}
		all["a2"] = s.add("a2", inCluster("a2", "one"), at("a1"), at("b1"))
		all["b2"] = s.add("b2", inCluster("b2", "two"), at("b1"), at("a1"))
		s.add("c", node("c"), at("a1"), at("b1"))
		for range raceflag.Share(60, 6) {
			time.Sleep(10 * time.Second)
			for name, m := range all {
				for _, o := range m.Members() {
					if theirs := clusters[o.ID]; theirs != "" && theirs != clusters[name] {
						t.Fatalf("%s of cluster %s has %s of cluster %s as %v", name, clusters[name], o.ID, theirs, o.Status)
					}
				}
			}
		}
		if all["a1"].sees("a2") != gossip.Alive || all["b2"].sees("b1") != gossip.Alive {
			t.Error("the clusters themselves are not whole: the test shows nothing")
		}
	})
}
