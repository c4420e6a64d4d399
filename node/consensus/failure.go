package consensus

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// failure is the first fatal error of the server: a store failed, or an instance could not be restarted.
type failure struct {
	onFailure     func(error) // Options.OnFailure; may be nil
	releaseStores func()      // ends the goroutines that wait for a store

	once   sync.Once
	cause  atomic.Pointer[error]
	failed chan struct{} // closed when cause is set
}

// newFailure returns a failure without a cause.
func newFailure(options *Options) *failure {
	return &failure{onFailure: options.OnFailure, releaseStores: options.Stores.Release, failed: make(chan struct{})}
}

// record sets the cause. It ignores all errors after the first one.
func (f *failure) record(err error) {
	f.once.Do(func() {
		f.cause.Store(&err)
		close(f.failed)
		if f.onFailure != nil {
			f.onFailure(err)
		}
	})
}

// err returns the cause, or nil if the server has not failed.
func (f *failure) err() error {
	if cause := f.cause.Load(); cause != nil {
		return *cause
	}
	return nil
}

// runGuarded runs startLibrary on a separate goroutine, because a failing store ends its calling goroutine. It
// returns the error of startLibrary, or the cause if the server fails first.
func (f *failure) runGuarded(startLibrary func() error) error {
	done := make(chan error, 1)
	go func() {
		err := errors.New("consensus: the stores failed") // result if the store ends the goroutine
		defer func() {
			if panicValue := recover(); panicValue != nil {
				err = fmt.Errorf("consensus: %v", panicValue)
			}
			done <- err
		}()
		err = startLibrary()
	}()
	select {
	case err := <-done:
		return err
	case <-f.failed:
		f.releaseStores()
		<-done //nolint:errcheck // err has the cause
		return f.err()
	}
}
