//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"

	"shardway/e2e/history"
	"shardway/internal/statefile"
)

// state is what the app keeps of its shards: a counter for each key, in memory between
// acquire and release, and written at release, or with through at each change. It does
// what apps are told to do (README, State that follows its shard), and nothing more.
type state struct {
	dir     statefile.Dir
	writeThrough bool

	mu   sync.Mutex
	acquired map[uint32]*shardState
	released map[uint32]releasedState           // by the last release
	lastSeqs map[string]map[uint32]uint64 // by disk and shard, the highest that named it
	calls []hookRecord
	faults map[string]*hookFault // by hook
}

// holding is one shard that was acquired.
type shardState struct {
	epoch  uint64
	counts map[string]uint64
}

// total is how much the shard has counted, in words.
func (st *shardState) sum() string {
	n := uint64(0)
	for _, c := range st.counts {
		n += c
	}
	return strconv.FormatUint(n, 10)
}

// leaving is what a release has left.
type releasedState struct {
	epoch uint64
	note  string
}

// told is one shard of one call, for the test to read.
type hookRecord struct {
	Hook     string `json:"hook"`
	Shard    uint32 `json:"shard"`
	Epoch    uint64 `json:"epoch"`
	From     string `json:"from,omitempty"`
	To       string `json:"to,omitempty"`
	Released bool   `json:"released,omitempty"`
	Again    bool   `json:"again,omitempty"`
	Err      string `json:"err,omitempty"`
}

func newState(dir string, through bool) *state {
	return &state{
		dir: statefile.Dir(dir), writeThrough: through,
		acquired: make(map[uint32]*shardState), released: make(map[uint32]releasedState), lastSeqs: make(map[string]map[uint32]uint64), faults: make(map[string]*hookFault),
	}
}

// acquired reports whether the app holds the shard of a request under its epoch.
func (s *state) hasAcquired(shard uint32, epoch uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.acquired[shard]
	return st != nil && st.epoch == epoch
}

// notAcquired asks for the shard, having run nothing.
func notAcquired(w http.ResponseWriter) {
	w.Header().Set("Shardway-Acquire", "1")
	w.WriteHeader(http.StatusMisdirectedRequest)
}

// do counts a request of a key, which a safe one only reads. An error says that it was
// not counted.
func (s *state) count(run history.Run, write bool) (count uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.acquired[run.Shard]
	if st == nil || st.epoch != run.Epoch {
		return 0, fmt.Errorf("shard %d was taken away from under a request of epoch %d", run.Shard, run.Epoch)
	}
	if !write {
		return st.counts[run.Key], nil
	}
	st.counts[run.Key]++
	if s.writeThrough {
		if err := s.saveLocked(run.Shard, st); err != nil {
			return 0, err
		}
	}
	return st.counts[run.Key], nil
}

func (s *state) saveLocked(shard uint32, st *shardState) error {
	b, err := json.Marshal(st.counts)
	if err != nil {
		return err
	}
	return s.dir.Save(shard, st.epoch, b)
}

// flush writes all that is held, for a test that wants to know what is written.
func (s *state) saveAll() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for shard, st := range s.acquired {
		errs = append(errs, s.saveLocked(shard, st))
	}
	return errors.Join(errs...)
}

// hookShard is a shard of a call, and hookCall the call.
type (
	hookShard struct {
		Shard    uint32  `json:"shard"`
		Epoch    uint64  `json:"epoch"`
		From     *string `json:"from"`
		To       *string `json:"to"`
		Released bool    `json:"released"`
		Note     []byte  `json:"note"`
		Again    bool    `json:"again"`
	}
	hookCall struct {
		Seq    uint64      `json:"seq"`
		Disk   string      `json:"disk"`
		Shards []hookShard `json:"shards"`
	}
)

// hook does what one call says, and returns what failed, and the notes of a release: how
// much it has counted.
func (s *state) handleCall(name string, c hookCall, failing []uint32) (failed map[uint32]string, notes map[uint32][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	failed, notes = make(map[uint32]string), make(map[uint32][]byte)
	seqs := s.lastSeqs[c.Disk]
	if seqs == nil {
		seqs = make(map[uint32]uint64)
		s.lastSeqs[c.Disk] = seqs
	}
	for _, h := range c.Shards {
		if c.Seq < seqs[h.Shard] {
			continue
		}
		seqs[h.Shard] = c.Seq
		var err error
		if slices.Contains(failing, h.Shard) {
			err = errors.New("told to fail")
		} else {
			err = s.applyLocked(name, h)
		}
		if l, ok := s.released[h.Shard]; err == nil && name == "release" && ok && l.epoch == h.Epoch {
			notes[h.Shard] = []byte(l.note) // again, if it is asked again
		}
		t := hookRecord{Hook: name, Shard: h.Shard, Epoch: h.Epoch, Released: h.Released, Again: h.Again}
		if h.From != nil {
			t.From = *h.From
		}
		if h.To != nil {
			t.To = *h.To
		}
		if err != nil {
			t.Err = err.Error()
			failed[h.Shard] = t.Err
		}
		s.calls = append(s.calls, t)
	}
	return failed, notes
}

func (s *state) applyLocked(name string, h hookShard) error {
	st := s.acquired[h.Shard]
	switch name {
	case "acquire":
		if st != nil && st.epoch == h.Epoch {
			return nil // what is in memory is newer than what is written
		}
		b, err := s.dir.Take(h.Shard, h.Epoch)
		if err != nil {
			return err
		}
		st = &shardState{epoch: h.Epoch, counts: make(map[string]uint64)}
		if len(b) > 0 {
			if err = json.Unmarshal(b, &st.counts); err != nil {
				return err
			}
		}
		if found := st.sum(); h.Released && h.Note != nil && string(h.Note) != found {
			return fmt.Errorf("released by %q with %s, and %s is found", *h.From, h.Note, found)
		}
		s.acquired[h.Shard] = st
		delete(s.released, h.Shard)
	case "release":
		if st == nil || st.epoch != h.Epoch {
			return nil
		}
		if err := s.saveLocked(h.Shard, st); err != nil {
			return err
		}
		delete(s.acquired, h.Shard)
		s.released[h.Shard] = releasedState{h.Epoch, st.sum()}
	case "lost":
		if st != nil && st.epoch <= h.Epoch {
			delete(s.acquired, h.Shard)
		}
	default:
		return fmt.Errorf("there is no hook %q", name)
	}
	return nil
}
