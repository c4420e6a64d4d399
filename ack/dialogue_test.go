package ack_test

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"shardway/ack"
	"shardway/shardmap"
)

var update = flag.Bool("update", false, "rewrite the dialogues in testdata")

// gone brings crash evidence about a node to every leader.
func (s *stage) gone(id shardmap.NodeID) {
	for _, l := range s.leaderParts() {
		s.step(l, ack.Evidence{Node: id, Boot: s.actor(id).boot})
	}
}

// crashUnder is a crash with evidence under a fence; the node comes back.
func crashUnder(f ack.Fence) func(s *stage) {
	return func(s *stage) {
		s.fence = f
		s.start("a", "b", "c")
		s.elect("a")
		s.run(600 * time.Millisecond)
		s.crash("b")
		s.gone("b")
		s.until("b's shards are taken", func() bool { return s.state.Committed().Count("b") == 0 })
		s.start("b")
		s.until("b serves again", func() bool { return s.serves("b") })
	}
}

// dialogues are the stories that testdata tells line by line. A change of the
// protocol shows there in plain words; look at the difference before -update.
func dialogues() map[string]func(s *stage) {
	return map[string]func(s *stage){
		"first-start": func(s *stage) {
			s.start("a", "b", "c")
			s.elect("a")
			s.run(600 * time.Millisecond)
		},
		"join": func(s *stage) {
			s.start("a", "b")
			s.elect("a")
			s.run(600 * time.Millisecond)
			s.start("c")
			s.actor("c").follows, s.actor("c").term = "a", s.term
			s.until("c serves", func() bool { return s.serves("c") })
		},
		"two-joins-at-once": func(s *stage) {
			s.start("a")
			s.elect("a")
			s.run(600 * time.Millisecond)
			s.start("b", "c")
			for _, id := range []shardmap.NodeID{"b", "c"} {
				s.actor(id).follows, s.actor(id).term = "a", s.term
			}
			s.until("both serve", func() bool { return s.serves("b") && s.serves("c") })
		},
		"leave": func(s *stage) {
			s.start("a", "b", "c")
			s.elect("a")
			s.run(600 * time.Millisecond)
			s.actor("c").leaving, s.actor("c").busy = true, true
			s.run(300 * time.Millisecond) // the round waits for what runs
			s.actor("c").busy = false
			s.until("c owns nothing", func() bool { return s.state.Committed().Count("c") == 0 })
		},
		"crash-lease":   crashUnder(ack.FenceLease),
		"crash-strict":  crashUnder(ack.FenceStrict),
		"crash-refused": crashUnder(ack.FenceRefused),
		"silence": func(s *stage) {
			s.start("a", "b", "c")
			s.elect("a")
			s.run(600 * time.Millisecond)
			s.actor("b").mute, s.actor("b").deaf = true, true
			s.until("b's shards are taken", func() bool { return s.state.Committed().Count("b") == 0 })
			s.actor("b").mute, s.actor("b").deaf = false, false
			s.until("b serves again", func() bool { return s.serves("b") })
		},
		"one-way-link": func(s *stage) {
			s.start("a", "b", "c")
			s.elect("a")
			s.run(600 * time.Millisecond)
			s.actor("b").deaf = true // its heartbeats arrive, the answers do not
			s.until("b's shards are taken", func() bool { return s.state.Committed().Count("b") == 0 })
		},
		"missed-acknowledgement": func(s *stage) {
			s.start("a", "b", "c")
			s.elect("a")
			s.run(600 * time.Millisecond)
			s.actor("b").held = true // heard, but its log does not go on
			s.start("d")
			s.actor("d").follows, s.actor("d").term = "a", s.term
			s.until("the others go on", func() bool { return s.serves("d") && !s.state.Last().Has("b") })
			s.actor("b").held = false
			s.until("b serves again", func() bool { return s.serves("b") })
		},
		"new-leader-finds-a-proposal": func(s *stage) {
			s.start("a", "b", "c")
			s.elect("a")
			s.run(600 * time.Millisecond)
			s.actor("c").leaving, s.actor("b").busy = true, true
			s.until("a round is open", func() bool { return s.state.Open() })
			s.actor("c").leaving, s.actor("b").busy = false, false
			s.elect("b")
			s.until("it has ended", func() bool { return !s.state.Open() && s.serves("a") })
		},
		"quick-restart": func(s *stage) {
			s.timing.RestartGrace = 3 * time.Second
			s.start("a", "b", "c")
			s.elect("a")
			s.run(600 * time.Millisecond)
			s.crash("b")
			s.gone("b")
			s.run(300 * time.Millisecond)
			s.start("b")
			s.until("b serves again", func() bool { return s.serves("b") })
			s.run(200 * time.Millisecond)
		},
		"deposed-leader": func(s *stage) {
			s.start("a", "b", "c")
			old := s.elect("a")
			s.run(600 * time.Millisecond)
			s.elect("b", "a") // a goes on, followed by itself alone
			s.run(700 * time.Millisecond)
			old.revoked = true
			s.actor("a").follows, s.actor("a").term = "b", s.term
			s.until("a serves again", func() bool { return s.serves("a") })
		},
		"barrier-never-applied": func(s *stage) {
			s.start("a", "b", "c")
			s.electStuck("a")
			s.run(3 * time.Second)
		},
	}
}

func TestDialogues(t *testing.T) {
	for name, tell := range dialogues() {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, "a", "b", "c")
			tell(s)
			got := s.String() + "\n"
			file := filepath.Join("testdata", name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s differs; now it goes\n%s", file, got)
			}
		})
	}
}
