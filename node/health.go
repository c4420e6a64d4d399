package node

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
)

const (
	healthEvery   = 500 * time.Millisecond
	healthTimeout = 2 * time.Second
	// healthFall is the number of failed checks in a row that make an app
	// unhealthy; one good check makes it healthy.
	healthFall = 3
)

// health watches the app behind this node. Until the first good check the app
// counts as unhealthy: a node whose app is not up is given no shards.
type health struct {
	check func(ctx context.Context) error
	log   zerolog.Logger
	good  atomic.Bool
	known atomic.Bool
	turn  func() // told after good has changed
}

func (h *health) run(ctx context.Context) {
	t := time.NewTicker(healthEvery)
	defer t.Stop()
	failed := 0
	for {
		err := h.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			failed++
		} else {
			failed = 0
		}
		h.judge(failed, err)
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
	}
}

func (h *health) once(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	return h.check(ctx)
}

func (h *health) judge(failed int, err error) {
	first := !h.known.Swap(true)
	switch {
	case failed == 0 && !h.good.Load():
		h.good.Store(true)
		h.log.Info().Msg("app healthy")
		h.turn()
	case failed >= healthFall && h.good.Load():
		h.good.Store(false)
		h.log.Warn().Err(err).Msg("app unhealthy: its shards move to other nodes")
		h.turn()
	case first && failed > 0:
		h.log.Warn().Err(err).Msg("app not reached yet: this node gets no shards until it answers")
	}
}
