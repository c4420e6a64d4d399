package admin

import (
	"context"
	"net/http"

	"shardway/internal/problem"
)

// LevelState is the answer of GET and POST /v1/level. A level is a number for what nodes
// may write to each other and into the log; see docs/internals/protocol.md.
type LevelState struct {
	// InForce is the level in force. Next is the one that will be raised next; the same
	// number means that no node knows a higher one, as far as the answering node can
	// tell.
	InForce uint8 `json:"in_force"`
	Next    uint8 `json:"next"`
	// Wait is for how much longer all nodes must know Next before it is raised by
	// itself, as in "59m30s"; empty if there is none to raise.
	Wait string `json:"wait,omitempty"`
	// Behind says which nodes hold it up, and what to do; empty: none does.
	Behind string `json:"behind,omitempty"`
	// Nodes are those of the Raft configuration, sorted; none if no leader told.
	Nodes []NodeLevel `json:"nodes"`
}

// NodeLevel is what the leader knows of a node's program.
type NodeLevel struct {
	Node   string `json:"node"`
	Knows  uint8  `json:"knows"` // the highest level; 0: it has not told this leader
	Heard  bool   `json:"heard"`
	Blocks bool   `json:"blocks"` // the next level waits for it
}

// Leveller shows and raises the level of a cluster. A Cluster that is one too serves
// /v1/level.
type LevelAPI interface {
	Level(ctx context.Context) LevelState
	// RaiseLevel puts the next level into force without waiting for --level-after. Its
	// errors are those of Cluster.Do; one that is ErrRefused says who holds it up.
	RaiseLevel(ctx context.Context, by string) (LevelState, error)
}

// raising is the argument of POST /v1/level.
type levelArguments struct {
	Raise bool `json:"raise"`
}

// level shows the level, or raises it.
func (s *Server) level(w http.ResponseWriter, r *http.Request) error {
	leveller, ok := s.cluster.(LevelAPI)
	if !ok {
		return problem.New(problem.NotFound, "this node has no level")
	}
	if r.Method != http.MethodPost {
		if _, err := query(r); err != nil {
			return err
		}
		return writeJSON(w, leveller.Level(r.Context()))
	}
	if err := readLevelArguments(r); err != nil {
		return err
	}
	c := admissionOf(r)
	c.action = "raise the level"
	ctx, cancel := actionContext(r.Context(), w)
	defer cancel()
	l, err := leveller.RaiseLevel(ctx, c.caller.String())
	if err != nil {
		return err
	}
	return writeJSON(w, l)
}

// readRaising wants the word: what it does cannot be taken back.
func readLevelArguments(r *http.Request) error {
	body, err := readBody(r)
	if err != nil {
		return err
	}
	var a levelArguments
	if body != nil {
		a, err = decodeObject[levelArguments](body, `{"raise":true}`, []string{"raise"})
	} else if q, wrong := query(r, "raise"); wrong != nil {
		err = wrong
	} else {
		a.Raise, err = q.boolean("raise")
	}
	if err == nil && !a.Raise {
		err = missing("raise", `say {"raise":true} or ?raise=true: a level that was raised cannot be taken back`)
	}
	return err
}

// Level returns the level of the cluster.
func (c *Client) Level(ctx context.Context) (LevelState, error) {
	return getJSON[LevelState](ctx, c, "/v1/level", nil)
}
