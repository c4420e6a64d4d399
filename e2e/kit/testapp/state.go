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

	"shardway/e2e/kit/history"
	"shardway/internal/statefile"
)

// state is the data of the acquired shards: one counter per key. The app loads a shard when it
// acquires it and saves it when it releases it, or at each change if writeThrough is set. It
// follows the rules for apps in the README ("State that follows its shard") and does nothing
// beyond them.
type state struct {
	dir          statefile.Dir
	writeThrough bool

	// mu protects the following fields.
	mu            sync.Mutex
	acquired      map[uint32]*shardState
	released      map[uint32]releasedState     // result of the last release
	lastSeqByDisk map[string]map[uint32]uint64 // highest sequence number of a call, by disk and shard
	calls         []hookRecord                 // one per shard of each hook call
	faults        map[string]*hookFault        // by hook
}

// shardState is one acquired shard.
type shardState struct {
	epoch  uint64
	counts map[string]uint64 // by key
}

// sumText returns the sum of all counters of the shard in decimal.
func (st *shardState) sumText() string {
	sum := uint64(0)
	for _, count := range st.counts {
		sum += count
	}
	return strconv.FormatUint(sum, 10)
}

// releasedState is the result of a release.
type releasedState struct {
	epoch uint64
	note  string // sum of the counters
}

// hookRecord is one shard of one hook call, as GET /hook-calls lists it.
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

func newState(dir string, writeThrough bool) *state {
	return &state{
		dir: statefile.Dir(dir), writeThrough: writeThrough,
		acquired: make(map[uint32]*shardState), released: make(map[uint32]releasedState), lastSeqByDisk: make(map[string]map[uint32]uint64), faults: make(map[string]*hookFault),
	}
}

// hasAcquired reports whether the app has acquired the shard in this ownership epoch.
func (s *state) hasAcquired(shard uint32, epoch uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	acquired := s.acquired[shard]
	return acquired != nil && acquired.epoch == epoch
}

// notAcquired responds with 421 and asks the node to call the acquire hook. The request has had no
// effect.
func notAcquired(w http.ResponseWriter) {
	w.Header().Set("Shardway-Acquire", "1")
	w.WriteHeader(http.StatusMisdirectedRequest)
}

// count returns the counter of the key, after an increment if write is set. The counter is
// unchanged if an error is returned.
func (s *state) count(run history.Run, write bool) (count uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	acquired := s.acquired[run.Shard]
	if acquired == nil || acquired.epoch != run.Epoch {
		return 0, fmt.Errorf("shard %d was released during a request of epoch %d", run.Shard, run.Epoch)
	}
	if !write {
		return acquired.counts[run.Key], nil
	}
	acquired.counts[run.Key]++
	if s.writeThrough {
		if err := s.saveLocked(run.Shard, acquired); err != nil {
			return 0, err
		}
	}
	return acquired.counts[run.Key], nil
}

// saveLocked writes the counters of a shard to its file. mu must be held.
func (s *state) saveLocked(shard uint32, acquired *shardState) error {
	data, err := json.Marshal(acquired.counts)
	if err != nil {
		return err
	}
	return s.dir.Save(shard, acquired.epoch, data)
}

// saveAll saves all acquired shards, so that a test can read them.
func (s *state) saveAll() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for shard, acquired := range s.acquired {
		errs = append(errs, s.saveLocked(shard, acquired))
	}
	return errors.Join(errs...)
}

type (
	// hookShard is one shard of a hook call.
	hookShard struct {
		ID       uint32  `json:"shard"`
		Epoch    uint64  `json:"epoch"`    // ownership epoch
		From     *string `json:"from"`     // previous owner; nil means none
		To       *string `json:"to"`       // next owner; nil means none
		Released bool    `json:"released"` // the previous owner has released the shard
		Note     []byte  `json:"note"`     // the note of that release; nil means none
		Again    bool    `json:"again"`    // the call is repeated
	}
	// hookCall is the body of a hook call.
	hookCall struct {
		Seq    uint64      `json:"seq"`  // sequence number of the calls of a disk
		Disk   string      `json:"disk"` // identifies the data directory of the node
		Shards []hookShard `json:"shards"`
	}
)

// handleCall runs one hook call. It ignores a shard for which a call with a higher sequence number
// has already arrived from the same disk. The shards in mustFail fail without an effect, as the fault
// of the hook requires. failed contains the error of each shard that failed. notes contains the sum of
// the counters of each shard that a release has saved.
func (s *state) handleCall(hook string, call hookCall, mustFail []uint32) (failed map[uint32]string, notes map[uint32][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	failed, notes = make(map[uint32]string), make(map[uint32][]byte)
	lastSeqs := s.lastSeqByDisk[call.Disk]
	if lastSeqs == nil {
		lastSeqs = make(map[uint32]uint64)
		s.lastSeqByDisk[call.Disk] = lastSeqs
	}
	for _, shard := range call.Shards {
		if call.Seq < lastSeqs[shard.ID] {
			continue
		}
		lastSeqs[shard.ID] = call.Seq
		err := s.applyLocked(hook, shard, slices.Contains(mustFail, shard.ID))
		if err != nil {
			failed[shard.ID] = err.Error()
		}
		release, ok := s.released[shard.ID]
		hasReleased := err == nil && hook == "release" && ok && release.epoch == shard.Epoch
		if hasReleased {
			notes[shard.ID] = []byte(release.note) // a repeated call gets the same note
		}
		s.calls = append(s.calls, shard.record(hook, err))
	}
	return failed, notes
}

// record returns the record of this shard in a call of a hook. err is the result for the shard.
func (shard *hookShard) record(hook string, err error) hookRecord {
	record := hookRecord{Hook: hook, Shard: shard.ID, Epoch: shard.Epoch, Released: shard.Released, Again: shard.Again}
	if shard.From != nil {
		record.From = *shard.From
	}
	if shard.To != nil {
		record.To = *shard.To
	}
	if err != nil {
		record.Err = err.Error()
	}
	return record
}

// applyLocked runs one hook for one shard. If mustFail is set, it only returns an error. mu must be held.
func (s *state) applyLocked(hook string, shard hookShard, mustFail bool) error {
	if mustFail {
		return errors.New("told to fail")
	}
	switch hook {
	case "acquire":
		return s.acquireLocked(shard)
	case "release":
		return s.releaseLocked(shard)
	case "lost":
		if acquired := s.acquired[shard.ID]; acquired != nil && acquired.epoch <= shard.Epoch {
			delete(s.acquired, shard.ID)
		}
		return nil
	}
	return fmt.Errorf("unknown hook %q", hook)
}

// acquireLocked loads a shard from its file. It returns an error if the file does not have the sum that
// the previous owner reported in its release. mu must be held.
func (s *state) acquireLocked(shard hookShard) error {
	current := s.acquired[shard.ID]
	isRepeated := current != nil && current.epoch == shard.Epoch
	if isRepeated {
		return nil // The memory is newer than the file.
	}
	data, err := s.dir.Take(shard.ID, shard.Epoch)
	if err != nil {
		return err
	}
	loaded := &shardState{epoch: shard.Epoch, counts: make(map[string]uint64)}
	if len(data) > 0 {
		if err := json.Unmarshal(data, &loaded.counts); err != nil {
			return err
		}
	}
	hasNote := shard.Released && shard.Note != nil
	if sum := loaded.sumText(); hasNote && string(shard.Note) != sum {
		return fmt.Errorf("shard released by %q with sum %s, but its file has sum %s", *shard.From, shard.Note, sum)
	}
	s.acquired[shard.ID] = loaded
	delete(s.released, shard.ID)
	return nil
}

// releaseLocked saves a shard and drops it from memory. It has no effect if the app has not acquired the
// shard in this epoch. mu must be held.
func (s *state) releaseLocked(shard hookShard) error {
	acquired := s.acquired[shard.ID]
	if acquired == nil || acquired.epoch != shard.Epoch {
		return nil
	}
	if err := s.saveLocked(shard.ID, acquired); err != nil {
		return err
	}
	delete(s.acquired, shard.ID)
	s.released[shard.ID] = releasedState{shard.Epoch, acquired.sumText()}
	return nil
}
