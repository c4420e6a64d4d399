package admin

import (
	"context"
	"net/http"

	"shardway/internal/problem"
)

// LevelState is the response of GET and POST /v1/level. A level is a number for what nodes
// may write to each other and into the log; see docs/internals/protocol.md.
type LevelState struct {
	// InForce is the current level. Next is the level that comes next, or the same number if no
	// node supports a higher one, as far as the responding node has been informed.
	InForce uint8 `json:"in_force"`
	Next    uint8 `json:"next"`
	// Wait is the remaining time, such as "59m30s", for which all nodes must support Next before the
	// leader raises the level automatically. Empty means that there is no higher level.
	Wait string `json:"wait,omitempty"`
	// Behind contains the nodes that block Next, and the remedy. Empty means that no node does.
	Behind string `json:"behind,omitempty"`
	// Nodes has the nodes of the Raft configuration, sorted. It is empty if no leader responded.
	Nodes []NodeLevel `json:"nodes"`
}

// NodeLevel is the highest level that a node supports, as reported to the leader.
type NodeLevel struct {
	Node   string `json:"node"`
	Knows  uint8  `json:"knows"` // the highest level; 0: it has not told this leader
	Heard  bool   `json:"heard"`
	Blocks bool   `json:"blocks"` // the next level waits for it
}

// LevelAPI is the optional interface of a Cluster that serves /v1/level.
type LevelAPI interface {
	Level(ctx context.Context) LevelState
	// RaiseLevel raises the level without waiting for --level-after. Its errors are those of
	// Cluster.Do. An error that wraps ErrRefused contains the nodes that block the level.
	RaiseLevel(ctx context.Context, by string) (LevelState, error)
}

// levelArguments are the arguments of POST /v1/level.
type levelArguments struct {
	Raise bool `json:"raise"`
}

// level returns the level, or raises it.
func (s *Server) level(w http.ResponseWriter, r *http.Request) error {
	api, ok := s.cluster.(LevelAPI)
	if !ok {
		return problem.New(problem.NotFound, "this node has no level")
	}
	if r.Method != http.MethodPost {
		if _, err := query(r); err != nil {
			return err
		}
		return writeJSON(w, api.Level(r.Context()))
	}
	if err := readLevelArguments(r); err != nil {
		return err
	}
	c := admissionOf(r)
	c.action = "raise the level"
	ctx, cancel := actionContext(r.Context(), w)
	defer cancel()
	l, err := api.RaiseLevel(ctx, c.caller.String())
	if err != nil {
		return err
	}
	return writeJSON(w, l)
}

// readLevelArguments requires raise=true explicitly, because raising the level cannot be undone.
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
