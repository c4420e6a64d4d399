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
	// stepTimeout bounds one node's answer to one step.
	stepTimeout = 3 * time.Second
	// stepTries is how often a step is asked for: a node may come in meanwhile.
	stepTries = 3
)

// round drives one rotation: install, use, retire, each on all nodes before the next.
// The nodes' files are its only state, and the newest secret is where it goes,
// so whoever leads next can go on if he has it.
//
// Whoever has only an older secret shall not get the newer one from it, nor end
// it. So what a person put into files is sent to nobody; what a rotation made is
// sent to who has shown the newest secret in use, wrapped by that, and no more
// once a node uses it; and nodes take no word of those who have not shown the
// newest they have themselves, see secret.Store.
type round struct {
	r      *Rotation
	target secret.Secret
}

// witness is what one node says about its secrets.
type witness struct {
	held []secret.Summary
	// shown are those of the leader's secrets that it has for certain.
	shown secret.List
}

func (w witness) has(f string) bool {
	return slices.ContainsFunc(w.held, func(h secret.Summary) bool { return h.Fingerprint == f })
}
func (w witness) uses(f string) bool { return len(w.held) > 0 && w.held[0].Fingerprint == f }
func (w witness) only(f string) bool { return w.uses(f) && len(w.held) == 1 }

func (x *round) run(ctx context.Context) ([]string, error) {
	all, err := x.gather(ctx)
	if err != nil {
		return nil, fmt.Errorf("nothing was changed: %w", err)
	}
	if err = x.choose(all); err != nil {
		return nil, err
	}
	for _, s := range []struct {
		do   string
		done func(witness, string) bool
	}{{install, witness.has}, {use, witness.uses}, {retire, witness.only}} {
		if all, err = x.ensure(ctx, s.do, s.done); err != nil {
			return nil, fmt.Errorf("stopped at the step %q: %w; the secrets that nodes use are accepted by all the others: bring the missing back or remove them, then run it again", s.do, err)
		}
	}
	return slices.Sorted(maps.Keys(all)), nil
}

// choose decides which secret all shall have: the newest there is if they
// differ, because then a rotation is under way, else a new one.
func (x *round) choose(all map[string]witness) error {
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
		return fmt.Errorf("the nodes hold the secrets %s and %s, and nothing says which one is newer (made=TIME behind it in the file): finish by hand", newest.Fingerprint, sorted[1].Fingerprint)
	}
	keeper := x.r.o.Secrets
	s, ok := keeper.List().Find(newest.Fingerprint)
	if !ok {
		return fmt.Errorf("secret %s is the newest, and only %s has it, not this leader, node %q: no node gives a secret away; put it into the file of every node, or have one lead that has it (shardway step-down), then run it again",
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

func newestFirst(a, b secret.Summary) int {
	return cmp.Or(b.Made.Compare(a.Made), cmp.Compare(a.Fingerprint, b.Fingerprint))
}

// ensure has every node take a step that has not, until all have, and returns
// what they hold then.
func (x *round) ensure(ctx context.Context, do string, done func(witness, string) bool) (map[string]witness, error) {
	f := x.target.Fingerprint()
	for range stepTries {
		all, err := x.gather(ctx)
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
			if step, err = x.handOver(all, todo); err != nil {
				return nil, err
			}
		}
		if _, err := x.tell(ctx, todo, do, step); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("nodes that do not have it keep joining")
}

// handOver returns the step that gives the nodes of todo the new secret, or why
// they shall not get it.
func (x *round) handOver(all map[string]witness, todo []string) (func(binding []byte) (any, error), error) {
	f, lack := x.target.Fingerprint(), strings.Join(todo, ", ")
	if !x.target.ByRotation() {
		return nil, fmt.Errorf("secret %s was not made by a rotation, so no node sends it to another: put it into the file of %s (shardway rotate-secret --help), or remove that node if nobody knows it", f, lack)
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

// gather asks every node what it holds.
func (x *round) gather(ctx context.Context) (map[string]witness, error) {
	nodes, err := x.nodes()
	if err != nil {
		return nil, err
	}
	return x.tell(ctx, nodes, show, func([]byte) (any, error) { return Step{Do: show}, nil })
}

// nodes are all that must follow.
func (x *round) nodes() ([]string, error) {
	nodes, outside := x.r.o.Cluster.Everybody()
	if len(outside) > 0 {
		return nil, fmt.Errorf("members that are not nodes cannot be sent a secret (%s): rotate by hand, as shardway rotate-secret --help describes", strings.Join(outside, ", "))
	}
	return nodes, nil
}

// tell has the nodes take a step, all at once. Its error names everybody who did
// not, and why.
func (x *round) tell(ctx context.Context, nodes []string, do string, step func(binding []byte) (any, error)) (map[string]witness, error) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	all := make(map[string]witness, len(nodes))
	missing := map[string]error{}
	var mu sync.Mutex
	var asked sync.WaitGroup
	for _, node := range nodes {
		asked.Go(func() {
			var w witness
			var err error
			if node == x.r.o.Self {
				w, err = x.own(do)
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

// own takes a step at the leader itself, which has the new secret first.
func (x *round) own(do string) (witness, error) {
	k := x.r.o.Secrets
	var err error
	switch do {
	case use:
		err = k.Use(x.target.Fingerprint(), k.List())
	case retire:
		err = k.Retire(x.target.Fingerprint(), k.List())
	}
	return witness{held: k.Summaries(), shown: k.List()}, err
}
