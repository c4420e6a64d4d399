package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/raft"
)

// The keys of the library for the last vote, and ours for both in one.
const (
	keyVoteTerm = "LastVoteTerm"
	keyVoteCand = "LastVoteCand"
	keyVote     = "Vote"
)

// errVoteOrder reports a library that votes in another order than the one that is
// mended here: TestLibraryWritesAVoteInTwo of package consensus is to tell first.
var errVoteOrder = errors.New("disk: a vote's candidate without its term: this program does not know how this version of raft votes")

// votes writes what the library writes of a vote in two, its term and then its
// candidate, in one: as a single value, under a key of its own.
//
// Killed between the two, a voter had voted in the new term for the candidate of
// its last vote, and would grant that one the new term without a look at its log
// (hashicorp/raft issue 661). A vote of which only the term came never was: the
// candidate was not told of it.
type votes struct {
	s raft.StableStore

	mu   sync.Mutex
	term uint64 // of the vote being written, zero: none is
}

// set writes the candidate, and with it the term that came before.
func (v *votes) set(key, val []byte) error {
	if string(key) != keyVoteCand {
		return v.s.Set(key, val)
	}
	v.mu.Lock()
	term := v.term
	v.term = 0
	v.mu.Unlock()
	if term == 0 {
		return errVoteOrder
	}
	return v.s.Set([]byte(keyVote), append(binary.BigEndian.AppendUint64(nil, term), val...))
}

// setUint64 keeps the term of a vote until its candidate comes.
func (v *votes) setUint64(key []byte, val uint64) error {
	if string(key) != keyVoteTerm {
		return v.s.SetUint64(key, val)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.term = val
	return nil
}

func (v *votes) get(key []byte) ([]byte, error) {
	if string(key) != keyVoteCand {
		return v.s.Get(key)
	}
	_, cand, err := v.last()
	return cand, err
}

func (v *votes) getUint64(key []byte) (uint64, error) {
	if string(key) != keyVoteTerm {
		return v.s.GetUint64(key)
	}
	term, _, err := v.last()
	return term, err
}

// last returns the last vote that was written: before there was our key, the
// library's own two.
func (v *votes) last() (term uint64, cand []byte, err error) {
	b, err := v.s.Get([]byte(keyVote))
	switch {
	case err != nil && unset(err):
		if term, err = v.s.GetUint64([]byte(keyVoteTerm)); err == nil {
			cand, err = v.s.Get([]byte(keyVoteCand))
		}
		return term, cand, err
	case err != nil:
		return 0, nil, err
	case len(b) < 8:
		return 0, nil, fmt.Errorf("vote of %d bytes, want at least 8", len(b))
	}
	return binary.BigEndian.Uint64(b), b[8:], nil
}
