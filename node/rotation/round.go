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
//     in use. It is encrypted with that secret, and is no longer sent once a node uses it.
//   - A node refuses steps of a leader that has not proven to have the newest secret of the node, see
//     secret.Store.
type round struct {
	rotation *Rotation
	target   secret.Secret // the secret that all nodes have at the end
}

// nodeReport is the report of one node about its secrets.
type nodeReport struct {
	held   []secret.Summary // the secrets that the node accepts; the first one is in use
	proven secret.List      // the secrets of the leader that the node has proven to have
}

// accepts reports whether the node accepts a secret, so it has completed the step install.
func (n nodeReport) accepts(fingerprint string) bool {
	return slices.ContainsFunc(n.held, func(s secret.Summary) bool { return s.Fingerprint == fingerprint })
}

// uses reports whether the node uses a secret, so it has completed the step use.
func (n nodeReport) uses(fingerprint string) bool {
	return len(n.held) > 0 && n.held[0].Fingerprint == fingerprint
}

// acceptsOnly reports whether the node accepts no other secret, so it has completed the step retire.
func (n nodeReport) acceptsOnly(fingerprint string) bool {
	return n.uses(fingerprint) && len(n.held) == 1
}

// run performs the rotation and returns the nodes that have the new secret.
func (r *round) run(ctx context.Context) ([]string, error) {
	reports, err := r.gatherReports(ctx)
	if err != nil {
		return nil, fmt.Errorf("nothing was changed: %w", err)
	}
	if err = r.chooseTarget(reports); err != nil {
		return nil, err
	}
	for _, step := range []struct {
		name        string
		isCompleted func(nodeReport, string) bool
	}{{stepInstall, nodeReport.accepts}, {stepUse, nodeReport.uses}, {stepRetire, nodeReport.acceptsOnly}} {
		if reports, err = r.ensureOnAllNodes(ctx, step.name, step.isCompleted); err != nil {
			return nil, fmt.Errorf("stopped at the step %q: %w; the secrets that nodes use are accepted by all the others: bring the missing back or remove them, then run it again", step.name, err)
		}
	}
	return slices.Sorted(maps.Keys(reports)), nil
}

// chooseTarget sets the target of the rotation. If the nodes accept several secrets, an earlier rotation was
// interrupted, and the target is the newest secret. Otherwise chooseTarget creates a new secret.
func (r *round) chooseTarget(reports map[string]nodeReport) error {
	nodesWith := map[string][]string{} // the nodes that accept a secret, by its fingerprint
	held := map[string]secret.Summary{}
	for _, node := range slices.Sorted(maps.Keys(reports)) {
		for _, s := range reports[node].held {
			held[s.Fingerprint] = s
			nodesWith[s.Fingerprint] = append(nodesWith[s.Fingerprint], node)
		}
	}
	sorted := slices.SortedFunc(maps.Values(held), newestFirst)
	if len(sorted) == 0 {
		return errors.New("no node has a secret")
	}
	newest := sorted[0]
	wasInterrupted := len(sorted) > 1
	if wasInterrupted && newest.Made.Equal(sorted[1].Made) {
		return fmt.Errorf("the nodes hold the secrets %s and %s, and it is unknown which one is newer (made=TIME after it in the file): complete the rotation manually", newest.Fingerprint, sorted[1].Fingerprint)
	}
	ownSecret, ok := r.rotation.options.Secrets.List().Find(newest.Fingerprint)
	if !ok {
		return fmt.Errorf("secret %s is the newest, and only %s has it, not this leader, node %q: nodes do not send a secret to others on their own; put it into the file of every node, or make a node leader that has it (shardway step-down), then run the command again",
			newest.Fingerprint, strings.Join(nodesWith[newest.Fingerprint], ", "), r.rotation.options.Self)
	}
	if err := ownSecret.CheckDate(time.Now()); err != nil {
		return err
	}
	if wasInterrupted {
		r.target = ownSecret
		return nil
	}
	return r.createTarget(ownSecret)
}

// createTarget creates a new secret as the target, and installs it on the leader. It must be newer than the
// current secret, even if this machine's clock is behind.
func (r *round) createTarget(current secret.Secret) error {
	made := time.Now()
	if earliest := current.Made().Add(time.Second); earliest.After(made) {
		made = earliest
	}
	r.target = secret.Generate(made).Rotated()
	secrets := r.rotation.options.Secrets
	return secrets.Install(r.target, secrets.List())
}

// newestFirst compares two secrets so that the newest one sorts first.
func newestFirst(a, b secret.Summary) int {
	return cmp.Or(b.Made.Compare(a.Made), cmp.Compare(a.Fingerprint, b.Fingerprint))
}

// ensureOnAllNodes makes all nodes perform a step, and returns their reports after it. isCompleted reports whether
// a node has completed the step for the secret with a fingerprint. ensureOnAllNodes returns an error if nodes
// without the step still join after stepTries.
func (r *round) ensureOnAllNodes(ctx context.Context, step string, isCompleted func(nodeReport, string) bool) (map[string]nodeReport, error) {
	fingerprint := r.target.Fingerprint()
	for range stepTries {
		reports, err := r.gatherReports(ctx)
		if err != nil {
			return nil, err
		}
		var missing []string // the nodes that have not completed the step
		for _, node := range slices.Sorted(maps.Keys(reports)) {
			if !isCompleted(reports[node], fingerprint) {
				missing = append(missing, node)
			}
		}
		if len(missing) == 0 {
			return reports, nil
		}
		compose := func([]byte) (any, error) { return Step{Kind: step, Fingerprint: fingerprint}, nil }
		if step == stepInstall {
			if compose, err = r.wrapTargetFor(missing, reports); err != nil {
				return nil, err
			}
		}
		if _, err := r.runStep(ctx, missing, step, compose); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("nodes that do not have it keep joining")
}

// wrapTargetFor returns a function that composes the step which sends the target, encrypted with the newest secret
// in use, to the nodes in missing. It returns an error if one of the nodes must not receive the target, see
// round.
func (r *round) wrapTargetFor(missing []string, reports map[string]nodeReport) (compose func(binding []byte) (any, error), err error) {
	target, missingList := r.target.Fingerprint(), strings.Join(missing, ", ")
	if !r.target.ByRotation() {
		return nil, fmt.Errorf("secret %s was not made by a rotation, so no node sends it to another: put it into the file of %s (shardway rotate-secret --help), or remove that node if the secret is unknown", target, missingList)
	}
	var inUse []secret.Summary
	for node, report := range reports {
		if report.uses(target) {
			return nil, fmt.Errorf("node %q uses the secret %s already, so it is no longer sent to others: put it into the file of %s", node, target, missingList)
		}
		if len(report.held) > 0 {
			inUse = append(inUse, report.held[0])
		}
	}
	newest := slices.MinFunc(inUse, newestFirst).Fingerprint
	wrappingSecret, ok := r.rotation.options.Secrets.List().Find(newest)
	if !ok {
		return nil, fmt.Errorf("secret %s is in use and this leader, node %q, does not have it: put it into its file", newest, r.rotation.options.Self)
	}
	for _, node := range missing {
		if !reports[node].proven.Has(wrappingSecret) {
			return nil, fmt.Errorf("node %q has not shown the secret %s that others use: put it into its file", node, newest)
		}
	}
	return func(binding []byte) (any, error) {
		wrapped, err := wrappingSecret.Wrap(binding, []byte(r.target.Line()))
		return Step{Kind: stepInstall, Fingerprint: target, WrappingSecret: newest, Wrapped: wrapped}, err
	}, nil
}

// gatherReports requests the reports of all nodes about their secrets.
func (r *round) gatherReports(ctx context.Context) (map[string]nodeReport, error) {
	nodes, err := r.nodes()
	if err != nil {
		return nil, err
	}
	return r.runStep(ctx, nodes, stepShow, func([]byte) (any, error) { return Step{Kind: stepShow}, nil })
}

// nodes returns all nodes that must take part. It returns an error if other members would lose the
// connection to the cluster, because they cannot take part.
func (r *round) nodes() ([]string, error) {
	nodes, outside := r.rotation.options.Cluster.AllNodes()
	if len(outside) > 0 {
		return nil, fmt.Errorf("members that are not nodes cannot be sent a secret (%s): rotate manually, as shardway rotate-secret --help describes", strings.Join(outside, ", "))
	}
	return nodes, nil
}

// runStep makes the nodes perform a step concurrently, and returns their reports. compose creates the request from
// the channel binding of the connection to a node. The error lists the nodes that failed, with reasons.
func (r *round) runStep(ctx context.Context, nodes []string, step string, compose func(binding []byte) (any, error)) (map[string]nodeReport, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	var mu sync.Mutex // protects the following two maps
	reports := make(map[string]nodeReport, len(nodes))
	failures := map[string]error{}
	var requests sync.WaitGroup
	for _, node := range nodes {
		requests.Go(func() {
			report, err := r.performStep(ctx, node, step, compose)
			mu.Lock()
			defer mu.Unlock()
			reports[node] = report
			if err != nil {
				failures[node] = err
			}
		})
	}
	requests.Wait()
	if len(failures) == 0 {
		return reports, nil
	}
	var reasons []string
	for _, node := range slices.Sorted(maps.Keys(failures)) {
		reasons = append(reasons, fmt.Sprintf("node %q is missing (%v)", node, failures[node]))
	}
	return nil, errors.New(strings.Join(reasons, "; "))
}

// performStep makes one node, which may be the leader itself, perform a step, and returns its report.
func (r *round) performStep(ctx context.Context, node, step string, compose func(binding []byte) (any, error)) (nodeReport, error) {
	if node == r.rotation.options.Self {
		return r.performOwnStep(step)
	}
	var state State
	proven, err := r.rotation.askProven(ctx, node, AskStep, compose, &state)
	return nodeReport{held: state.Held, proven: proven}, err
}

// performOwnStep performs a step on the leader. There is nothing to install, because the leader already has the
// target.
func (r *round) performOwnStep(step string) (nodeReport, error) {
	secrets := r.rotation.options.Secrets
	var err error
	switch step {
	case stepUse:
		err = secrets.Use(r.target.Fingerprint(), secrets.List())
	case stepRetire:
		err = secrets.Retire(r.target.Fingerprint(), secrets.List())
	}
	return nodeReport{held: secrets.Summaries(), proven: secrets.List()}, err
}
