package cli

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"shardway/internal/problem"
)

// The wait command continues only after errors that may end without intervention. It does not wait
// forever with an invalid token, and does not give up on a node that is about to start.
func TestWaitRetriesTemporaryErrors(t *testing.T) {
	dial := func(errno syscall.Errno) error {
		return &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", errno)}
	}
	for _, tc := range []struct {
		err  error
		want bool
	}{
		{problem.New(problem.NotReady, "no lease"), true},
		{problem.New(problem.NoLeader, "no leader"), true},
		{&problem.Problem{Code: problem.Internal}, true},
		{problem.New(problem.NotFound, "no such node"), false},
		{problem.New(problem.Unauthorized, "no token"), false},
		{problem.New(problem.BadRequest, "no node"), false},
		{&net.DNSError{Err: "no such host", Name: "n1", IsNotFound: true}, true},
		{dial(syscall.ECONNREFUSED), true},
		{dial(syscall.ECONNRESET), true},
		{dial(syscall.EPIPE), true},
		{dial(syscall.EHOSTUNREACH), true},
		{dial(syscall.ENETUNREACH), true},
		{dial(syscall.EACCES), false},
		{io.EOF, true},
		{io.ErrUnexpectedEOF, true},
		{context.DeadlineExceeded, true},
		{context.Canceled, false},
		{x509.UnknownAuthorityError{}, false},
		{errors.New("127.0.0.1:80 is not a Shardway admin port"), false},
	} {
		if got := isTemporary(fmt.Errorf("asked: %w", tc.err)); got != tc.want {
			t.Errorf("passing(%v) = %v, want %v", tc.err, got, tc.want)
		}
	}
}
