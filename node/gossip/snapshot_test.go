package gossip_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"shardway/node/gossip"
)

// recorded gives each member a snapshot of the members that it has seen.
func recorded(t *testing.T, f func(s *swarm)) {
	t.Helper()
	dir := t.TempDir()
	bubble(t, func(s *swarm) {
		s.file = func(name string) string { return filepath.Join(dir, name) }
		f(s)
	})
}

func (m *member) restart(name string) {
	m.end()
	m.again(name)
}

func (m *member) end() {
	m.host.Crash()
	m.stop()
}

// again starts a member again, without a join address.
func (m *member) again(name string) {
	m.host = m.host.Restart()
	m.start(name, node(name))
}

func TestCrashedNodeRejoinsPreviousMembers(t *testing.T) {
	recorded(t, func(s *swarm) {
		a := s.add("a", node("a"))
		b := s.add("b", node("b"), a.host.Addr(port))
		c := s.add("c", node("c"), a.host.Addr(port))
		s.whole(a, b, c)
		time.Sleep(time.Second)
		for range 3 {
			b.restart("b")
			s.whole(a, b, c)
		}
	})
}

// The other members consider messages of a returned member older than its leave message, unless its clock continues where it was.
func TestNodeThatLeftRejoinsAndLeavesAgain(t *testing.T) {
	recorded(t, func(s *swarm) {
		a := s.add("a", node("a"))
		b := s.add("b", node("b"), a.host.Addr(port))
		c := s.add("c", node("c"), a.host.Addr(port))
		s.whole(a, b, c)
		for range 3 {
			if err := b.Leave(s.t.Context()); err != nil {
				s.t.Fatal(err)
			}
			s.until("b has left", func() bool { return a.sees("b") == gossip.Left && c.sees("b") == gossip.Left })
			b.restart("b")
			s.whole(a, b, c)
			time.Sleep(time.Second)
		}
		time.Sleep(time.Minute)
		s.whole(a, b, c)
	})
}

// The member that leaves last has seen all others leave before.
func TestAllThatLeftMeetAgain(t *testing.T) {
	recorded(t, func(s *swarm) {
		a := s.add("a", node("a"))
		b := s.add("b", node("b"), a.host.Addr(port))
		c := s.add("c", node("c"), a.host.Addr(port))
		all := []*member{a, b, c}
		s.whole(all...)
		time.Sleep(time.Second)
		for _, m := range all {
			go func() { _ = m.Leave(s.t.Context()) }()
		}
		time.Sleep(5 * time.Second)
		for _, m := range all {
			m.end()
		}
		for i, m := range all {
			m.again([]string{"a", "b", "c"}[i])
		}
		s.whole(all...)
	})
}

func TestBrokenRecordIsReplaced(t *testing.T) {
	recorded(t, func(s *swarm) {
		if err := os.WriteFile(s.file("b"), []byte("\x00\x01\nclock: x\n"), 0o600); err != nil {
			s.t.Fatal(err)
		}
		a := s.add("a", node("a"))
		b := s.add("b", node("b"), a.host.Addr(port))
		s.whole(a, b)
		time.Sleep(time.Second)
		text, err := os.ReadFile(s.file("b"))
		if err != nil || !strings.Contains(string(text), "alive: a "+a.host.Addr(port)+"\n") || strings.Contains(string(text), "\x00") {
			s.t.Errorf("record %q, %v", text, err)
		}
		if logs := strings.Join(s.lines(), ""); !strings.Contains(logs, "2 lines") {
			s.t.Errorf("nothing was logged of a broken file: %s", logs)
		}
		b.restart("b")
		s.whole(a, b)
	})
}

// Many members that join at once are written together.
func TestLastJoinedMemberIsSavedAtShutdown(t *testing.T) {
	recorded(t, func(s *swarm) {
		a := s.add("a", node("a"))
		b := s.add("b", node("b"), a.host.Addr(port))
		s.whole(a, b)
		b.end()
		if text, err := os.ReadFile(s.file("b")); err != nil || !strings.Contains(string(text), "alive: a ") {
			s.t.Errorf("record %q, %v", text, err)
		}
	})
}

// Messages of a restarted member are not older than those of its previous process.
func TestClockOfEarlierProcessIsRestored(t *testing.T) {
	recorded(t, func(s *swarm) {
		if err := os.WriteFile(s.file("a"), []byte("clock: 1000\n"), 0o600); err != nil {
			s.t.Fatal(err)
		}
		a := s.add("a", node("a"))
		b := s.add("b", node("b"), a.host.Addr(port))
		s.whole(a, b)
		b.end()
		text, err := os.ReadFile(s.file("b"))
		if err != nil || !strings.Contains(string(text), "clock: 100") {
			s.t.Errorf("record %q, %v", text, err)
		}
	})
}
