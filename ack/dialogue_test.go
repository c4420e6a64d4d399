package ack_test

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"shardway/ack"
	"shardway/ack/leader"
	"shardway/shardmap"
)

var update = flag.Bool("update", false, "rewrite the dialogues of testdata")

// TestDialogues plays the files of testdata. A line that begins with ">" is what
// happens; the indented lines below it are its effects. Everything else is
// for the reader. A change of the protocol shows there in plain words: look at the
// difference before -update.
//
//	nodes a b c            a new scene: twelve shards, all nodes down
//	takeover lease            or timeout, or immediate; before the first election
//	grace 3s               the restart grace; before the first election
//	expect 3               the number of founding nodes; default: the nodes that are up
//	timing a 1s 6s timeout  a gets a request to change lease, dead-after and takeover
//	start a b              processes start, each under its next boot
//	crash c                its process ends, its connections close
//	elect b [but a c]      b leads the next term; the others go on as they were
//	elect-blind b          the same, and its barrier is not applied
//	tell a                 a learns of the newest term
//	run 300ms              time passes, all nodes send heartbeats
//	show on                every heartbeat and answer is noted, until show off
//	stuck, flow            what is submitted waits; it enters the log
//	evidence c 1           the leader learns that boot 1 of c is gone
//	remove c               the statement of an operator
//	leave c, goodbye c     it wants to own nothing; it runs nothing any more
//	sick c, well c         its app
//	hold c, release c      its log is not applied
//	busy c, done c         something runs until it is cut; it has ended
//	deaf c, mute c, clear c   answers to it, or its heartbeats, get lost; no more
//	weight c 2             its weight
//	gateway c              it owns nothing and routes
func TestDialogues(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d dialogues: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := playDialogue(t, string(b))
			switch {
			case got == string(b):
			case *update:
				write(t, file, []byte(got))
			default:
				t.Errorf("%s: want\n%s\ngot\n%s", file, firstDifference(string(b), got), firstDifference(got, string(b)))
			}
		})
	}
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// The dialogues document the rules by which shards are taken and nodes dropped: each rule must
// occur.
func TestDialoguesShowEveryRule(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txt")
	var all strings.Builder
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(b)
	}
	for _, rule := range []string{
		": acknowledged\n", ": evidence\n", ": silence\n", ": refusal\n", ": goodbye\n", ": new-boot\n", ": removed\n",
		"changes no timing", "dead-after 6s",
		"dropped: silent", "dropped: crashed", "dropped: missed-ack", "dropped: behind", "steps down", "the map stays",
	} {
		if !strings.Contains(all.String(), rule) {
			t.Errorf("no dialogue shows %q", rule)
		}
	}
}

// firstDifference returns the lines of a around the first that b does not have.
func firstDifference(a, b string) string {
	as, bs := strings.Split(a, "\n"), strings.Split(b, "\n")
	at := 0
	for at < min(len(as), len(bs))-1 && as[at] == bs[at] {
		at++
	}
	return strings.Join(as[max(at-3, 0):min(at+5, len(as))], "\n")
}

// playDialogue returns the text with the current answers.
func playDialogue(t *testing.T, text string) string {
	t.Helper()
	var out []string
	var s *stage
	for line := range strings.SplitSeq(text, "\n") {
		if strings.HasPrefix(line, "  ") {
			continue // an old answer
		}
		out = append(out, line)
		command, ok := strings.CutPrefix(line, "> ")
		if !ok {
			continue
		}
		words := strings.Fields(command)
		if words[0] == "nodes" {
			s = newStage(t, ids(words[1:])...)
			continue
		}
		s.lines = nil
		if !s.perform(words[0], words[1:]) {
			t.Fatalf("unknown command %q", command)
		}
		for _, l := range s.lines {
			out = append(out, "  "+l)
		}
	}
	return strings.Join(out, "\n")
}

func ids(words []string) []shardmap.NodeID {
	var out []shardmap.NodeID
	for _, w := range words {
		out = append(out, shardmap.NodeID(w))
	}
	return out
}

// perform performs one event.
func (s *stage) perform(verb string, args []string) bool {
	var err error
	switch verb {
	case "takeover":
		s.timing.Takeover = map[string]ack.Takeover{"lease": ack.TakeoverLease, "timeout": ack.TakeoverTimeout, "immediate": ack.TakeoverImmediate}[args[0]]
	case "grace":
		s.pace.RestartGrace, err = time.ParseDuration(args[0])
	case "expect":
		s.expect, err = strconv.Atoi(args[0])
	case "timing":
		err = s.setTiming(shardmap.NodeID(args[0]), args[1:])
	case "start":
		s.begin(ids(args)...)
	case "crash":
		s.crash(shardmap.NodeID(args[0]))
	case "elect":
		s.elect(shardmap.NodeID(args[0]), ids(args[min(2, len(args)):])...)
	case "elect-blind":
		s.electStuck(shardmap.NodeID(args[0]), ids(args[min(2, len(args)):])...)
	case "run":
		var d time.Duration
		d, err = time.ParseDuration(args[0])
		s.run(d)
	case "show":
		s.show = args[0] == "on"
	case "stuck":
		s.stuck = true
	case "flow":
		s.stuck = false
		s.flush()
	case "evidence":
		var boot uint64
		boot, err = strconv.ParseUint(args[1], 10, 64)
		id := shardmap.NodeID(args[0])
		s.sendToLeaders(leader.CrashEvidence{Node: id, Boot: boot, Nonce: s.actor(id).nonce, RedialStartedAt: s.now})
	case "remove":
		s.sendToLeaders(leader.NodeRemoved{Node: shardmap.NodeID(args[0])})
	default:
		return s.afflict(s.actor(shardmap.NodeID(args[0])), verb, args[1:])
	}
	return err == nil
}

// setTiming requests another lease, dead-after and fence from a leader. A refusal is part of
// the dialogue.
func (s *stage) setTiming(id shardmap.NodeID, args []string) error {
	t := s.state.Timing()
	lease, err := time.ParseDuration(args[0])
	dead, err2 := time.ParseDuration(args[1])
	takeover, ok := ack.ParseTakeover(args[2])
	if err != nil || err2 != nil || !ok {
		return errors.Join(err, err2, strconv.ErrSyntax)
	}
	t.Lease, t.DeadAfter, t.Takeover = lease, dead, takeover
	_ = s.changeTiming(id, t)
	return nil
}

// begin starts processes that follow the current leader.
func (s *stage) begin(nodes ...shardmap.NodeID) {
	s.start(nodes...)
	for _, id := range nodes {
		s.follow(s.actor(id))
	}
}

// follow gives a node the newest term.
func (s *stage) follow(a *actor) {
	for _, l := range s.leaderParts() {
		if l.term == s.term {
			a.follows, a.term = l.id, s.term
		} else if l.id == a.id {
			l.revoked = true
		}
	}
}

func (s *stage) sendToLeaders(m leader.Message) {
	for _, l := range s.leaderParts() {
		s.step(l, m)
	}
}

// afflict changes the condition of one node.
func (s *stage) afflict(a *actor, verb string, args []string) bool {
	switch verb {
	case "tell":
		s.follow(a)
	case "leave":
		a.leaving = true
	case "goodbye":
		a.goodbye = true
	case "gateway":
		a.gateway = true
	case "sick", "well":
		a.unhealthy = verb == "sick"
	case "hold", "release":
		a.held = verb == "hold"
	case "busy", "done":
		a.busy = verb == "busy"
	case "deaf":
		a.deaf = true
	case "mute":
		a.mute = true
	case "clear":
		a.deaf, a.mute = false, false
	case "weight":
		n, err := strconv.ParseUint(args[0], 10, 32)
		a.weight = uint32(n)
		return err == nil
	default:
		return false
	}
	return true
}
