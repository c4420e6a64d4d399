package admin

import (
	"context"
	"net/http"

	"shardway/internal/problem"
)

// UpgradeState is the response of GET and POST /v1/upgrade. A format version is a number for what nodes
// may write to each other and into the log; see docs/internals/protocol.md.
type UpgradeState struct {
	// InForce is the current format version. Next is the format version that comes next, or the same number if no
	// node supports a higher one, as far as the responding node has been informed.
	InForce uint8 `json:"in_force"`
	Next    uint8 `json:"next"`
	// Wait is the remaining time, such as "59m30s", for which all nodes must support Next before the
	// leader raises the format version automatically. Empty means that there is no higher one.
	Wait string `json:"wait,omitempty"`
	// Behind contains the nodes that block Next, and the remedy. Empty means that no node does.
	Behind string `json:"behind,omitempty"`
	// Nodes has the nodes of the Raft configuration, sorted. It is empty if no leader responded.
	Nodes []NodeUpgrade `json:"nodes"`
}

// NodeUpgrade is the highest format version that a node supports, as reported to the leader.
type NodeUpgrade struct {
	Node   string `json:"node"`
	Knows  uint8  `json:"knows"` // the highest format version; 0: it has not told this leader
	Heard  bool   `json:"heard"`
	Blocks bool   `json:"blocks"` // the next format version waits for it
}

// UpgradeAPI is the optional interface of a Cluster that serves /v1/upgrade.
type UpgradeAPI interface {
	UpgradeStatus(ctx context.Context) UpgradeState
	// FinalizeUpgrade raises the format version without waiting for --finalize-after. Its errors are those of
	// Cluster.Do. An error that wraps ErrRefused contains the nodes that block the upgrade.
	FinalizeUpgrade(ctx context.Context, by string) (UpgradeState, error)
}

// upgradeArguments are the arguments of POST /v1/upgrade.
type upgradeArguments struct {
	Finalize bool `json:"finalize"`
}

// upgrade returns the state of the upgrade, or finalizes it.
func (s *Server) upgrade(w http.ResponseWriter, r *http.Request) error {
	api, ok := s.cluster.(UpgradeAPI)
	if !ok {
		return problem.New(problem.NotFound, "this node has no format version")
	}
	if r.Method != http.MethodPost {
		if _, err := query(r); err != nil {
			return err
		}
		return writeJSON(w, api.UpgradeStatus(r.Context()))
	}
	if err := readUpgradeArguments(r); err != nil {
		return err
	}
	c := admissionOf(r)
	c.action = "finalize the upgrade"
	ctx, cancel := actionContext(r.Context(), w)
	defer cancel()
	l, err := api.FinalizeUpgrade(ctx, c.caller.String())
	if err != nil {
		return err
	}
	return writeJSON(w, l)
}

// readUpgradeArguments requires finalize=true explicitly, because raising the format version cannot be undone.
func readUpgradeArguments(r *http.Request) error {
	body, err := readBody(r)
	if err != nil {
		return err
	}
	var a upgradeArguments
	if body != nil {
		a, err = decodeObject[upgradeArguments](body, `{"finalize":true}`, []string{"finalize"})
	} else if q, wrong := query(r, "finalize"); wrong != nil {
		err = wrong
	} else {
		a.Finalize, err = q.boolean("finalize")
	}
	if err == nil && !a.Finalize {
		err = missing("finalize", `say {"finalize":true} or ?finalize=true: a finalized upgrade cannot be taken back`)
	}
	return err
}

// UpgradeStatus returns the format version of the cluster.
func (c *Client) UpgradeStatus(ctx context.Context) (UpgradeState, error) {
	return getJSON[UpgradeState](ctx, c, "/v1/upgrade", nil)
}
