package childproc

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// List returns the processes, ordered by shard and key.
func (s *Supervisor) List() []Info {
	s.mu.Lock()
	list := make([]Info, 0, len(s.processes))
	for _, p := range s.processes {
		info := Info{Shard: p.target.Shard, Key: p.target.Key, Epoch: p.epoch, State: p.state, PID: p.pid, Dir: p.dir, StartedAt: p.startedAt}
		if p.addr.IsValid() {
			info.Addr = p.addr.String()
		}
		if p.state == Ready {
			info.Idle = s.idleLocked(p)
		}
		list = append(list, info)
	}
	s.mu.Unlock()
	slices.SortFunc(list, func(a, b Info) int { return cmp.Or(cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Key, b.Key)) })
	return list
}

// Failures returns the targets whose processes have failed repeatedly and which are currently
// pausing, worst first.
func (s *Supervisor) Failures() []Failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	var list []Failure
	for target, f := range s.failures {
		if f.count > 1 && now.Before(f.until.Add(maxPause)) && (s.processes[target] == nil || s.processes[target].state != Ready) {
			list = append(list, Failure{Shard: target.Shard, Key: target.Key, Count: f.count, Reason: f.reason})
		}
	}
	slices.SortFunc(list, func(a, b Failure) int {
		return cmp.Or(-cmp.Compare(a.Count, b.Count), cmp.Compare(a.Shard, b.Shard), cmp.Compare(a.Key, b.Key))
	})
	return list
}

// Max returns the maximum number of processes.
func (s *Supervisor) Max() int { return s.options.Max }

// ShowsKeys reports whether operators may read keys, not only their hashes.
func (s *Supervisor) ShowsKeys() bool { return s.options.ShowKeys }

// CountState returns the number of processes in a state.
func (s *Supervisor) CountState(state State) (count int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.processes {
		if p.state == state {
			count++
		}
	}
	return count
}

// Counts returns the counters.
func (s *Supervisor) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts
}

// maxOutputLines limits how many lines of output are logged per second, for all processes together.
const maxOutputLines = 200

// outputLimit limits the lines of output in the log.
type outputLimit struct {
	mu     sync.Mutex
	second int64
	lines  int
	lost   uint64
}

// take reports whether a line may be logged, and how many lines have been dropped before it.
func (l *outputLimit) take(now time.Time, alsoLost uint64) (lost uint64, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost += alsoLost
	if second := now.Unix(); second != l.second {
		l.second, l.lines = second, 0
	}
	if l.lines >= maxOutputLines {
		l.lost++
		return 0, false
	}
	l.lines++
	lost, l.lost = l.lost, 0
	return lost, true
}

// onOutput is called by the guard.
func (s *Supervisor) onOutput(id uint64, stream, line string, lost uint64) {
	lost, ok := s.output.take(time.Now(), lost)
	if !ok {
		return
	}
	entry := s.options.Log.Info().Str("stream", stream)
	s.mu.Lock()
	if p := s.byID[id]; p != nil {
		s.describe(entry, p)
	}
	s.mu.Unlock()
	if lost > 0 {
		entry.Uint64("dropped", lost)
	}
	entry.Str("line", line).Msg("app process output")
}
