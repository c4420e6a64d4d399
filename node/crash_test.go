package node_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"shardway/admin/api"
	"shardway/node"
	"shardway/proxy/poison"
)

// crashOf returns what an ingress records of a request that was in flight at a process whose connections broke.
func crashOf(p *process, boot uint64) poison.Crash {
	return poison.Crash{Node: p.name, Boot: boot, Keys: []poison.Implicated{{Shard: 7, Hash: 1}}}
}

// breaks reports whether a node finds, within the time most, that the process has crashed, and how long that took.
func breaks(at *process, w poison.Crash, most time.Duration) (broke bool, took time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	began := time.Now()
	return at.node.ProcessBroke(ctx, w), time.Since(began)
}

// A process has crashed if nothing listens at its address, or another process does. An unreachable process may be healthy, and a process
// that has left has ended as planned.
func TestProcessHasBrokenIfItIsGone(t *testing.T) {
	t.Parallel()
	bubble(t, func(w *world) {
		for _, name := range []string{"a", "b", "c", "d"} {
			w.start(name)
		}
		w.untilSettled("a", "b", "c", "d")
		w.untilVoters(4)
		at := w.leader()
		rest := w.others(at)
		p, q, r := w.all[rest[0]], w.all[rest[1]], w.all[rest[2]]
		boot := p.node.Boot()
		expect := func(what string, wr poison.Crash, want bool) {
			w.t.Helper()
			if got, took := breaks(at, wr, 5*time.Second); got != want || took > time.Second {
				w.t.Errorf("%s: broken: %v after %v, want %v", what, got, took, want)
			}
		}
		expect("it is there", crashOf(p, boot), false)
		expect("another one is there", crashOf(p, boot-1), true)
		w.net.Isolate(p.name)
		if got, took := breaks(at, crashOf(p, boot), 5*time.Second); got || took != 5*time.Second {
			w.t.Errorf("out of reach: broken: %v after %v, want no answer in 5s", got, took)
		}
		w.net.Heal()
		w.untilSettled("a", "b", "c", "d")
		p.kill()
		expect("it was killed", crashOf(p, boot), true)

		// Another process was killed first; now the node stops as planned.
		q.stop()
		w.until("it leaves gossip, or has left", func() bool { // the first leave message may be lost
			m := at.node.Member(q.name)
			return m == "leaving" || m == "left"
		})
		expect("it leaves", crashOf(q, q.node.Boot()-1), false)
		w.until("it has left gossip", func() bool { return at.node.Member(q.name) == "left" })
		<-q.done
		q.host.Crash()
		expect("it has left", crashOf(q, q.node.Boot()), false)
		expect("another one has left", crashOf(r, r.node.Boot()-1), true)
	})
}

// Requests in flight at a crashed process are reported to the leader, also if there is no leader for a while, but not forever.
func TestCrashIsReportedToTheLeader(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		leaderless time.Duration
		want       int
	}{"at once": {0, 1}, "as somebody leads": {10 * time.Second, 1}, "too late": {25 * time.Second, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			three(t, func(w *world) {
				w.untilVoters(3)
				l, p := w.leader(), w.follower()
				gone := w.all[w.others(l)[0]]
				if gone == p {
					gone = w.all[w.others(l)[1]]
				}
				boot := gone.node.Boot()
				p.node.ReportBrokenConns(crashOf(gone, boot)) // a healthy process
				time.Sleep(time.Second)
				if n := l.node.Ends(); n != 0 {
					w.t.Errorf("%d ends are known of before there was one", n)
				}
				gone.kill()
				if tc.leaderless > 0 {
					w.net.Partition([]string{p.name}, []string{l.name})
					w.until("nobody leads", func() bool { return w.leader() == nil })
				}
				p.node.ReportBrokenConns(crashOf(gone, boot))
				time.Sleep(tc.leaderless)
				w.net.Heal()
				w.until("somebody leads", func() bool { return w.leader() != nil && w.leader().node.Leased() })
				time.Sleep(5 * time.Second)
				if n := w.leader().node.Ends(); n != tc.want {
					w.t.Errorf("%d ends are known of, want %d", n, tc.want)
				}
			})
		})
	}
}

// The age of a crash counts from the crash itself, whichever node reports it and however late. A node that cannot report it returns an
// error early enough for another attempt.
func TestCrashReportsIncludeTheirAge(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		l, p := w.leader(), w.follower()
		tell := func(at *process, hash uint64, end string, ago time.Duration) {
			w.t.Helper()
			if !at.node.ReportImplicated(w.t.Context(), node.ImplicatedReport{Node: end, Boot: 1, Ago: ago, Keys: []poison.Implicated{{Shard: 7, Hash: hash}}}) {
				w.t.Errorf("%s could not tell", at.name)
			}
		}
		expect := func(at *process, want int) {
			w.t.Helper()
			if n, says := at.node.Suspects(w.t.Context()); !says || n != want {
				w.t.Errorf("%s says %v that %d keys are suspects, want %d", at.name, says, n, want)
			}
		}
		expect(l, 0)
		expect(p, 0)
		for i, at := range []*process{l, p} { // one key each
			tell(at, uint64(i), "x", 50*time.Second)
			time.Sleep(20 * time.Second)
			tell(at, uint64(i), "y", 0)
			expect(l, i)
			tell(at, uint64(i), "z", 30*time.Second)
			expect(l, i+1)
			expect(p, i+1)
		}
		w.net.Isolate(l.name)
		began := time.Now()
		if p.node.ReportImplicated(w.t.Context(), node.ImplicatedReport{Node: "x"}) {
			w.t.Error("a leader out of reach was told")
		}
		if took := time.Since(began); took > time.Second {
			w.t.Errorf("that it was not told took %v", took)
		}
		w.net.Heal()
		w.untilSettled("a", "b", "c")
		l, p = w.leader(), w.follower()
		w.net.Isolate(l.name)
		if _, says := p.node.Suspects(w.t.Context()); says {
			w.t.Error("a leader out of reach has said whom it suspects")
		}
		w.net.Isolate(p.name)
		w.until("it knows of no leader", func() bool {
			return p.node.API().Do(w.t.Context(), api.Action{Verb: api.StepDown}) != nil && !p.node.Leased()
		})
		time.Sleep(10 * time.Second)
		if p.node.ReportImplicated(w.t.Context(), node.ImplicatedReport{Node: "x"}) {
			w.t.Error("nobody was told")
		}
		if _, says := p.node.Suspects(w.t.Context()); says {
			w.t.Error("nobody has said whom it suspects")
		}
	})
}

// No connection to a process is used once the node has detected its successor. Once, a GET was sent on a remaining connection to a process that
// had ended unnoticed, and this counted as the first process that the request had crashed. The next process ran the GET and was killed,
// which counted as the second: the GET was given up.
func TestConnectionsToAnEarlierProcessCarryNothing(t *testing.T) {
	t.Parallel()
	three(t, func(w *world) {
		w.untilVoters(3)
		l, p := w.leader(), w.follower()
		owner := w.all[slices.DeleteFunc(w.others(l), func(n string) bool { return n == p.name })[0]]
		gets := func() <-chan clientResponse { w.t.Helper(); return asking(w, p, http.MethodGet, owner.name, "/") }
		_, answer := gatedApp(w, owner)
		close(answer)
		if got := <-gets(); got.status != http.StatusOK {
			w.t.Fatalf("answered %v before anything happened", got)
		}
		w.net.Isolate(p.name)
		owner.kill()
		time.Sleep(time.Second)
		owner.restart()
		w.net.Heal()
		w.untilSettled("a", "b", "c")

		asked, never := gatedApp(w, owner)
		defer close(never)
		answered := gets()
		w.until("it runs", func() bool { return asked.Load() == 1 })
		for _, other := range []*process{l, p} {
			_, answer := gatedApp(w, other)
			close(answer)
		}
		owner.kill()
		if got := <-answered; got.status != http.StatusOK {
			w.t.Errorf("answered %v after one process that ran it was killed, want another's 200", got)
		}
	})
}

// No process notifies a nonvoter of the successors of other processes, but the log shows which nodes were excluded, possibly late and
// together with later entries. A connection that the nonvoter kept to an excluded node may lead to a process that has ended unnoticed.
// Once, a GET was sent on such a connection and then to the next process, which was killed: the GET counted as the cause of both crashes.
func TestConnectionsToExcludedProcessesCarryNoRequests(t *testing.T) {
	t.Parallel()
	for name, late := range map[string]bool{"heard at once": false, "heard late": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bubble(t, func(w *world) { droppedAndBack(w, late) })
		})
	}
}

// droppedAndBack sends a GET to a process that is killed. That process follows one that was excluded, to which the ingress, a nonvoter, had
// kept a connection. late delays the ingress's log.
func droppedAndBack(w *world, late bool) {
	w.t.Helper()
	names := []string{"a", "b", "c", "d", "e", "f"}
	for _, name := range names {
		w.start(name)
	}
	w.untilSettled(names...)
	w.untilVoters(maxVoters)
	l := w.leader()
	voters := l.node.Voters()
	p := w.all[slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(voters, n) })[0]]
	rest := slices.DeleteFunc(w.others(l), func(n string) bool { return n == p.name })
	owner := w.all[rest[0]]
	gets := func() <-chan clientResponse { w.t.Helper(); return asking(w, p, http.MethodGet, owner.name, "/") }
	_, answer := gatedApp(w, owner)
	close(answer)
	if got := <-gets(); got.status != http.StatusOK {
		w.t.Fatalf("answered %v before anything happened", got)
	}
	if late {
		p.log.close()
	}
	owner.kill()
	time.Sleep(time.Second)
	owner.restart()
	if late {
		time.Sleep(3 * time.Second)
		p.log.open()
	}
	w.untilSettled(names...)

	asked, never := gatedApp(w, owner)
	defer close(never)
	answered := gets()
	w.until("it runs", func() bool { return asked.Load() == 1 })
	for _, other := range append(rest[1:], l.name, p.name) {
		_, answer := gatedApp(w, w.all[other])
		close(answer)
	}
	owner.kill()
	if got := <-answered; got.status != http.StatusOK {
		w.t.Errorf("answered %v after one process that ran it was killed, want another's 200", got)
	}
}
