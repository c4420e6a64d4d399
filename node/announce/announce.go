package announce

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"shardway/config"
	"shardway/internal/secret"
	"shardway/node/gossip"
)

const (
	// checkInterval is the interval at which Run checks the state of the gossip.
	checkInterval = time.Second
	// conflictGrace is how long another member may hold the name without a warning. Nodes remember a member that
	// crashed and was restarted at another address for less time.
	conflictGrace = 15 * time.Second
	// conflictLogInterval is the interval at which the warning is repeated.
	conflictLogInterval = time.Minute
	// leaveTimeout limits the announcement that the member leaves.
	leaveTimeout = 5 * time.Second
)

// Announcement is an announced service.
type Announcement struct {
	gossip  *gossip.Gossip
	secrets *secret.Store // nil means no secret
	name    string
	log     zerolog.Logger

	isConnected   bool // another node is alive
	wasConnected  bool // a node was alive since the start
	isAnnounced   bool // nodes show the service
	conflictSince time.Time
	nextWarning   time.Time
}

// New returns the announcement of a service. conf is the result of config.LoadAnnouncement.
func New(conf *config.Config, log zerolog.Logger) (*Announcement, error) {
	a := &Announcement{name: conf.Node, log: log.With().Str("name", conf.Node).Logger()}
	addrs := make(map[string]string, len(conf.Endpoints))
	for _, endpoint := range conf.Endpoints {
		addrs[endpoint.Name] = endpoint.Address
	}
	options := gossip.Options{
		Name: gossip.ServiceName(conf.Node), Tags: gossip.Tags{Endpoints: addrs},
		BindAddr: conf.Gossip, AdvertiseAddr: conf.GossipAdvertise, JoinAddrs: conf.Join, Log: a.log,
	}
	if conf.SecretFile != "" {
		var err error
		if a.secrets, err = secret.Open(conf.SecretFile); err != nil {
			return nil, fmt.Errorf("--secret-file: %w", err)
		}
		options.Keys = a.secrets.List().GossipKeys()
	}
	var err error
	a.gossip, err = gossip.New(options)
	if tooLong, ok := errors.AsType[*gossip.TooLongError](err); ok {
		return nil, fmt.Errorf("--endpoint = %q: an announcement cannot contain these addresses, which take %d bytes; use fewer or shorter ones", tooLong.Value, tooLong.Bytes)
	}
	return a, err
}

// Run announces the service until ctx ends. It then leaves gossip, so that nodes no longer show the service. It
// returns an error if the port cannot be opened, or if the first node that it reaches refuses it.
func (a *Announcement) Run(ctx context.Context) error {
	if err := a.gossip.Listen(ctx); err != nil {
		return err
	}
	a.log.Info().Stringer("gossip", a.gossip.Addr()).Msg("announcement started")
	gossipCtx, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var wg sync.WaitGroup
	var gossipErr error
	wg.Go(func() { gossipErr = a.gossip.Run(gossipCtx) })
	if a.secrets != nil {
		a.secrets.OnChange(func(secrets secret.List) error { return a.gossip.SetKeys(secrets.GossipKeys()) })
		wg.Go(func() { a.secrets.Run(gossipCtx, a.log) })
	}
	err := a.watch(ctx)
	a.leave(gossipCtx)
	stop()
	wg.Wait()
	a.log.Info().Msg("announcement ended")
	return errors.Join(err, gossipErr)
}

// watch logs changes until ctx ends, or until a node refuses this member.
func (a *Announcement) watch(ctx context.Context) error {
	ticker := time.NewTicker(checkInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case refusal := <-a.gossip.Refusals():
			return refusal
		case <-a.gossip.Changed():
		case <-ticker.C:
		}
		if err := a.checkConnection(); err != nil {
			return err
		}
		a.logConflict(time.Now())
	}
}

// checkConnection logs when nodes begin to show the service, and when it has lost all nodes. It returns an error if the first nodes that it
// finds cannot reach this member.
func (a *Announcement) checkConnection() error {
	isConnected := a.gossip.NoOtherNodeReason() == nil
	if isConnected && !a.wasConnected {
		if err := a.checkReachable(); err != nil {
			return err
		}
		a.wasConnected = true
	}
	if a.isConnected && !isConnected {
		a.log.Warn().Msg("all nodes lost, joining again")
	}
	a.isConnected = isConnected
	_, isTaken := a.gossip.NameConflict()
	isAnnounced := isConnected && !isTaken
	if isAnnounced && !a.isAnnounced {
		a.log.Info().Msg("service announced")
	}
	a.isAnnounced = isAnnounced
	return nil
}

// checkReachable returns an error if this member announces a loopback address and a node does not. That node would
// dial itself, and the member would seem to fail over and over.
func (a *Announcement) checkReachable() error {
	addr := a.gossip.Addr()
	if !addr.Addr().IsLoopback() {
		return nil
	}
	for _, member := range a.gossip.Members() {
		if member.Node && member.Status == gossip.Alive && !member.Addr.Addr().IsLoopback() {
			return fmt.Errorf("--join leads to node %s at %s, which cannot reach the address %s of this process; name that address in --join, or set --gossip-advertise", member.ID, member.Addr, addr)
		}
	}
	return nil
}

// logConflict logs a warning while another member has the name of this service.
func (a *Announcement) logConflict(now time.Time) {
	holder, found := a.gossip.NameConflict()
	if !found {
		a.conflictSince = time.Time{}
		return
	}
	if a.conflictSince.IsZero() {
		a.conflictSince, a.nextWarning = now, now.Add(conflictGrace)
	}
	if now.Before(a.nextWarning) {
		return
	}
	a.nextWarning = now.Add(conflictLogInterval)
	a.log.Warn().Stringer("addr", holder).Str("remedy", "stop the other process, or choose another --name").Msg("service not announced, name taken")
}

// leave announces that the member leaves. It announces nothing while another member has the name, because nodes would
// take the announcement for the departure of that member.
func (a *Announcement) leave(ctx context.Context) {
	if _, isTaken := a.gossip.NameConflict(); isTaken {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	if err := a.gossip.Leave(ctx); err != nil {
		a.log.Warn().Err(err).Msg("departure not announced")
	}
}
