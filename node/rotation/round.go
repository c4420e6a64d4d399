package rotation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"shardway/internal/secret"
)

const (
	// stepTimeout is the timeout of the request for one step to one node.
	stepTimeout = 3 * time.Second
	// stepTries is the number of attempts to complete a step on all nodes. Nodes that join during an attempt
	// need another one.
	stepTries = 3
)

// round performs one rotation on the leader: the steps install, use and retire, each on all nodes before the
// next one. The secret files of the nodes are the only state. The newest secret in them is the target of the
// rotation, so a later leader that has this secret can continue an interrupted rotation.
//
// A holder of only an older secret must neither receive the newer one nor disable it:
//
//   - A secret that an operator has written into a file is never sent.
//   - A secret that a rotation has created is sent only to nodes that have proven to have the newest secret
//     in use. It is encrypted with that secret, and is not sent any more once a node uses it.
//   - A node refuses steps of a leader that has not proven to have the newest secret of the node, see
//     secret.Store.
type round struct {
	r      *Rotation
	target secret.Secret
}

// nodeReport is the report of one node about its secrets.
type nodeReport struct {
	held []secret.Summary // the secrets that the node reports; the first one is in use
	// shown contains the secrets of the leader that the node has proven to have.
	shown secret.List
}

// has, uses and only report whether the node accepts the secret with fingerprint f, uses it, and accepts no
// other one. They are the conditions for the end of the steps install, use and retire.
func (w nodeReport) has(f string) bool {
	return slices.ContainsFunc(w.held, func(h secret.Summary) bool { return h.Fingerprint == f })
}
func (w nodeReport) uses(f string) bool { return len(w.held) > 0 && w.held[0].Fingerprint == f }
func (w nodeReport) only(f string) bool { return w.uses(f) && len(w.held) == 1 }

// run performs the rotation and returns the nodes that have the new secret.
func (x *round) run(ctx context.Context) ([]string, error) {
	all, err := x.gatherReports(ctx)
	if err != nil {
		return nil, fmt.Errorf("nothing was changed: %w", err)
	}
	if err = x.chooseTarget(all); err != nil {
		return nil, err
	}
	for _, s := range []struct {
		do   string
		done func(nodeReport, string) bool
	}{{install, nodeReport.has}, {use, nodeReport.uses}, {retire, nodeReport.only}} {
		if all, err = x.ensureOnAllNodes(ctx, s.do, s.done); err != nil {
			return nil, fmt.Errorf("stopped at the step %q: %w; the secrets that nodes use are accepted by all the others: bring the missing back or remove them, then run it again", s.do, err)
		}
	}
	return slices.Sorted(maps.Keys(all)), nil
}

// chooseTarget sets the target of the rotation. If the secrets of the nodes in all differ, an earlier rotation was
// interrupted, and the target is the newest secret. Otherwise choose creates a new secret.
func (x *round) chooseTarget(all map[string]nodeReport) error {
	at := map[string][]string{} // fingerprint → the nodes that have it
	held := map[string]secret.Summary{}
	for _, node := range slices.Sorted(maps.Keys(all)) {
		for _, h := range all[node].held {
			held[h.Fingerprint] = h
			at[h.Fingerprint] = append(at[h.Fingerprint], node)
		}
	}
	sorted := slices.SortedFunc(maps.Values(held), newestFirst)
	if len(sorted) == 0 {
		return errors.New("no node has a secret")
	}
	newest := sorted[0]
	if len(sorted) > 1 && newest.Made.Equal(sorted[1].Made) {
		return fmt.Errorf("the nodes hold the secrets %s and %s, and it is unknown which one is newer (made=TIME after it in the file): complete the rotation manually", newest.Fingerprint, sorted[1].Fingerprint)
	}
	keeper := x.r.o.Secrets
	s, ok := keeper.List().Find(newest.Fingerprint)
	if !ok {
		return fmt.Errorf("secret %s is the newest, and only %s has it, not this leader, node %q: nodes do not send a secret to others on their own; put it into the file of every node, or make a node leader that has it (shardway step-down), then run the command again",
			newest.Fingerprint, strings.Join(at[newest.Fingerprint], ", "), x.r.o.Self)
	}
	if err := s.CheckDate(time.Now()); err != nil {
		return err
	}
	if len(sorted) > 1 {
		x.target = s
		return nil
	}
	made := time.Now()
	if last := s.Made().Add(time.Second); last.After(made) {
		made = last
	}
	x.target = secret.Generate(made).Rotated()
	return keeper.Install(x.target, keeper.List())
}

// newestFirst compares two secrets so that the newest one sorts first.
func newestFirst(a, b secret.Summary) int {
	return cmp.Or(b.Made.Compare(a.Made), cmp.Compare(a.Fingerprint, b.Fingerprint))
}

// ensureOnAllNodes makes all nodes perform the step do, and returns their reports after it. done reports whether a node
// has completed the step. ensure returns an error if nodes without the step still join after stepTries.
func (x *round) ensureOnAllNodes(ctx context.Context, do string, done func(nodeReport, string) bool) (map[string]nodeReport, error) {
	f := x.target.Fingerprint()
	for range stepTries {
		all, err := x.gatherReports(ctx)
		if err != nil {
			return nil, err
		}
		var todo []string
		for _, node := range slices.Sorted(maps.Keys(all)) {
			if !done(all[node], f) {
				todo = append(todo, node)
			}
		}
		if len(todo) == 0 {
			return all, nil
		}
		step := func([]byte) (any, error) { return Step{Do: do, Fingerprint: f}, nil }
		if do == install {
			if step, err = x.wrapSecretFor(all, todo); err != nil {
				return nil, err
			}
		}
		if _, err := x.runStep(ctx, todo, do, step); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("nodes that do not have it keep joining")
}

// wrapSecretFor returns a function that creates the step which sends the target to the nodes in todo. It returns
// an error if one of the nodes must not receive the target, see round.
func (x *round) wrapSecretFor(all map[string]nodeReport, todo []string) (func(binding []byte) (any, error), error) {
	f, lack := x.target.Fingerprint(), strings.Join(todo, ", ")
	if !x.target.ByRotation() {
		return nil, fmt.Errorf("secret %s was not made by a rotation, so no node sends it to another: put it into the file of %s (shardway rotate-secret --help), or remove that node if the secret is unknown", f, lack)
	}
	var used []secret.Summary
	for node, w := range all {
		if w.uses(f) {
			return nil, fmt.Errorf("node %q uses the secret %s already, so it is no longer sent to others: put it into the file of %s", node, f, lack)
		}
		if len(w.held) > 0 {
			used = append(used, w.held[0])
		}
	}
	newest := slices.MinFunc(used, newestFirst).Fingerprint
	by, ok := x.r.o.Secrets.List().Find(newest)
	if !ok {
		return nil, fmt.Errorf("secret %s is in use and this leader, node %q, does not have it: put it into its file", newest, x.r.o.Self)
	}
	for _, node := range todo {
		if !all[node].shown.Has(by) {
			return nil, fmt.Errorf("node %q has not shown the secret %s that others use: put it into its file", node, newest)
		}
	}
	return func(binding []byte) (any, error) {
		wrapped, err := by.Wrap(binding, []byte(x.target.Line()))
		return Step{Do: install, Fingerprint: f, By: newest, Wrapped: wrapped}, err
	}, nil
}

// gatherReports requests the reports of all nodes about their secrets.
func (x *round) gatherReports(ctx context.Context) (map[string]nodeReport, error) {
	nodes, err := x.nodes()
	if err != nil {
		return nil, err
	}
	return x.runStep(ctx, nodes, show, func([]byte) (any, error) { return Step{Do: show}, nil })
}

// nodes returns all nodes that must take part. It returns an error if other members would lose the
// connection to the cluster, because they cannot take part.
func (x *round) nodes() ([]string, error) {
	nodes, outside := x.r.o.Cluster.AllNodes()
	if len(outside) > 0 {
		return nil, fmt.Errorf("members that are not nodes cannot be sent a secret (%s): rotate manually, as shardway rotate-secret --help describes", strings.Join(outside, ", "))
	}
	return nodes, nil
}

// runStep makes the nodes perform a step concurrently, and returns their reports. The error lists the nodes that
// failed, with reasons.
func (x *round) runStep(ctx context.Context, nodes []string, do string, step func(binding []byte) (any, error)) (map[string]nodeReport, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	all := make(map[string]nodeReport, len(nodes))
	missing := map[string]error{}
	var mu sync.Mutex
	var asked sync.WaitGroup
	for _, node := range nodes {
		asked.Go(func() {
			var w nodeReport
			var err error
			if node == x.r.o.Self {
				w, err = x.performOwnStep(do)
			} else {
				var state State
				w.shown, err = x.r.askProven(ctx, node, AskStep, step, &state)
				w.held = state.Held
			}
			mu.Lock()
			defer mu.Unlock()
			if all[node] = w; err != nil {
				missing[node] = err
			}
		})
	}
	asked.Wait()
	if len(missing) == 0 {
		return all, nil
	}
	var why []string
	for _, node := range slices.Sorted(maps.Keys(missing)) {
		why = append(why, fmt.Sprintf("node %q is missing (%v)", node, missing[node]))
	}
	return nil, errors.New(strings.Join(why, "; "))
}

// performOwnStep performs a step on the leader. There is nothing to install, because the leader has the target already.
func (x *round) performOwnStep(do string) (nodeReport, error) {
	k := x.r.o.Secrets
	var err error
	switch do {
	case use:
		err = k.Use(x.target.Fingerprint(), k.List())
	case retire:
		err = k.Retire(x.target.Fingerprint(), k.List())
	}
	return nodeReport{held: k.Summaries(), shown: k.List()}, err
}
