package findings

import (
	"sync"

	"shardway/node/cluster"
	"shardway/node/router"
	"shardway/node/selfcheck"
	"shardway/shardmap"
)

// StatementSource composes the statements of this node. Any goroutine may use it.
type StatementSource struct {
	view   *cluster.View
	router *router.Router

	mu        sync.Mutex    // protects the following fields
	committed *shardmap.Map // map to which digest belongs
	digest    string
}

// NewStatementSource returns the StatementSource of a node.
func NewStatementSource(view *cluster.View, r *router.Router) *StatementSource {
	return &StatementSource{view: view, router: r}
}

// Current returns the current statement of this node.
func (s *StatementSource) Current() (statement selfcheck.Statement) {
	statement.Term, statement.Leader = s.view.Raft.LeaderOfTerm()
	if committed := s.router.State().Committed(); committed.Epoch() != 0 {
		statement.Epoch, statement.Digest = committed.Epoch(), s.digestOf(committed)
	}
	return statement
}

// digestOf returns the digest of the committed map. It computes each digest once.
func (s *StatementSource) digestOf(committed *shardmap.Map) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.committed != committed {
		s.committed, s.digest = committed, selfcheck.DigestOf(committed)
	}
	return s.digest
}
