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
	through bool

	mu   sync.Mutex
	held map[uint32]*holding
	left map[uint32]leaving           // by the last release
	seqs map[string]map[uint32]uint64 // by disk and shard, the highest that named it
	told []told
	ills map[string]*ill // by hook
}

// holding is one shard that was acquired.
type holding struct {
	epoch  uint64
	counts map[string]uint64
}

// total is how much the shard has counted, in words.
func (k *holding) total() string {
	n := uint64(0)
	for _, c := range k.counts {
		n += c
	}
	return strconv.FormatUint(n, 10)
}

// leaving is what a release has left.
type leaving struct {
	epoch uint64
	note  string
}

// told is one shard of one call, for the test to read.
type told struct {
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
		dir: statefile.Dir(dir), through: through,
		held: make(map[uint32]*holding), left: make(map[uint32]leaving), seqs: make(map[string]map[uint32]uint64), ills: make(map[string]*ill),
	}
}

// acquired reports whether the app holds the shard of a request under its epoch.
func (s *state) acquired(shard uint32, epoch uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.held[shard]
	return k != nil && k.epoch == epoch
}

// notAcquired asks for the shard, having run nothing.
func notAcquired(w http.ResponseWriter) {
	w.Header().Set("Shardway-Acquire", "1")
	w.WriteHeader(http.StatusMisdirectedRequest)
}

// do counts a request of a key, which a safe one only reads. An error says that it was
// not counted.
func (s *state) do(run history.Run, write bool) (count uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.held[run.Shard]
	if k == nil || k.epoch != run.Epoch {
		return 0, fmt.Errorf("shard %d was taken away from under a request of epoch %d", run.Shard, run.Epoch)
	}
	if !write {
		return k.counts[run.Key], nil
	}
	k.counts[run.Key]++
	if s.through {
		if err := s.save(run.Shard, k); err != nil {
			return 0, err
		}
	}
	return k.counts[run.Key], nil
}

func (s *state) save(shard uint32, k *holding) error {
	b, err := json.Marshal(k.counts)
	if err != nil {
		return err
	}
	return s.dir.Save(shard, k.epoch, b)
}

// flush writes all that is held, for a test that wants to know what is written.
func (s *state) flush() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for shard, k := range s.held {
		errs = append(errs, s.save(shard, k))
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
func (s *state) hook(name string, c hookCall, failing []uint32) (failed map[uint32]string, notes map[uint32][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	failed, notes = make(map[uint32]string), make(map[uint32][]byte)
	seqs := s.seqs[c.Disk]
	if seqs == nil {
		seqs = make(map[uint32]uint64)
		s.seqs[c.Disk] = seqs
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
			err = s.one(name, h)
		}
		if l, ok := s.left[h.Shard]; err == nil && name == "release" && ok && l.epoch == h.Epoch {
			notes[h.Shard] = []byte(l.note) // again, if it is asked again
		}
		t := told{Hook: name, Shard: h.Shard, Epoch: h.Epoch, Released: h.Released, Again: h.Again}
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
		s.told = append(s.told, t)
	}
	return failed, notes
}

func (s *state) one(name string, h hookShard) error {
	k := s.held[h.Shard]
	switch name {
	case "acquire":
		if k != nil && k.epoch == h.Epoch {
			return nil // what is in memory is newer than what is written
		}
		b, err := s.dir.Take(h.Shard, h.Epoch)
		if err != nil {
			return err
		}
		k = &holding{epoch: h.Epoch, counts: make(map[string]uint64)}
		if len(b) > 0 {
			if err = json.Unmarshal(b, &k.counts); err != nil {
				return err
			}
		}
		if found := k.total(); h.Released && h.Note != nil && string(h.Note) != found {
			return fmt.Errorf("released by %q with %s, and %s is found", *h.From, h.Note, found)
		}
		s.held[h.Shard] = k
		delete(s.left, h.Shard)
	case "release":
		if k == nil || k.epoch != h.Epoch {
			return nil
		}
		if err := s.save(h.Shard, k); err != nil {
			return err
		}
		delete(s.held, h.Shard)
		s.left[h.Shard] = leaving{h.Epoch, k.total()}
	case "lost":
		if k != nil && k.epoch <= h.Epoch {
			delete(s.held, h.Shard)
		}
	default:
		return fmt.Errorf("there is no hook %q", name)
	}
	return nil
}
