package disk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/hashicorp/raft"
)

const (
	// keyVoteTerm and keyVoteCand are the two keys that hashicorp/raft uses for the last vote.
	keyVoteTerm = "LastVoteTerm"
	keyVoteCand = "LastVoteCand"
	// keyVote is the combined key. Its value is the term as 8 bytes in big endian, then the candidate.
	keyVote = "Vote"
	// voteTermBytes is the length of the term in a combined vote.
	voteTermBytes = 8
)

// errVoteOrder reports a version of the Raft library that writes the candidate of a vote before
// its term. TestLibraryWritesAVoteInTwo of package consensus should fail before this
// happens.
var errVoteOrder = errors.New("disk: the vote has a candidate and no term: this program does not support the votes of this Raft version")

// voteStore stores the term and the candidate of a vote under one key, so that they are written
// atomically. hashicorp/raft writes them in two operations: first the term and then the candidate.
//
// If a voter is killed between the two operations, it appears to have voted in the new term
// for the candidate of its previous vote. It would then grant that candidate the new term
// without checking its log (hashicorp/raft issue 661). A vote of which only the term was
// written does not count: the candidate never received a response.
type voteStore struct {
	store raft.StableStore

	mu          sync.Mutex
	pendingTerm uint64 // term of the vote that is being written; zero means none
}

// set stores the value of a key. The candidate of a vote is stored together with the buffered term.
func (v *voteStore) set(key, val []byte) error {
	if string(key) != keyVoteCand {
		return v.store.Set(key, val)
	}
	v.mu.Lock()
	term := v.pendingTerm
	v.pendingTerm = 0
	v.mu.Unlock()
	if term == 0 {
		return errVoteOrder
	}
	return v.store.Set([]byte(keyVote), append(binary.BigEndian.AppendUint64(nil, term), val...))
}

// setUint64 stores the integer of a key. It buffers the term of a vote until its candidate follows.
func (v *voteStore) setUint64(key []byte, val uint64) error {
	if string(key) != keyVoteTerm {
		return v.store.SetUint64(key, val)
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.pendingTerm = val
	return nil
}

// get returns the value of a key. The candidate of the last vote comes from the combined key of the vote.
func (v *voteStore) get(key []byte) ([]byte, error) {
	if string(key) != keyVoteCand {
		return v.store.Get(key)
	}
	_, candidate, err := v.lastVote()
	return candidate, err
}

// getUint64 returns the integer stored under key. The term of the last vote comes from the combined key of the vote.
func (v *voteStore) getUint64(key []byte) (uint64, error) {
	if string(key) != keyVoteTerm {
		return v.store.GetUint64(key)
	}
	term, _, err := v.lastVote()
	return term, err
}

// lastVote returns the last written vote. If the combined key has not been written yet, it reads the two
// keys that hashicorp/raft uses.
func (v *voteStore) lastVote() (term uint64, candidate []byte, err error) {
	vote, err := v.store.Get([]byte(keyVote))
	switch {
	case err != nil && isNotFound(err):
		if term, err = v.store.GetUint64([]byte(keyVoteTerm)); err == nil {
			candidate, err = v.store.Get([]byte(keyVoteCand))
		}
		return term, candidate, err
	case err != nil:
		return 0, nil, err
	case len(vote) < voteTermBytes:
		return 0, nil, fmt.Errorf("vote of %d bytes, want at least %d", len(vote), voteTermBytes)
	}
	return binary.BigEndian.Uint64(vote), vote[voteTermBytes:], nil
}
