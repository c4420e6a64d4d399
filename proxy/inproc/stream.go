package inproc

import (
	"errors"
	"io"
	"math"
	"net"

	"github.com/valyala/fasthttp"

	"shardway/proxy/h1"
	"shardway/proxy/inflight"
)

// errPanicked replaces the result of a stream whose Read panicked.
var errPanicked = errors.New("proxy: the app's stream panicked")

// errStreamCancelled replaces the result of a stream whose run was cancelled.
var errStreamCancelled = errors.New("proxy: the answer's stream was cut")

// relayStream copies a response stream of the handler to the client as it arrives. The request is
// treated as in flight until the stream is closed and every Task has ended.
func (conn *Conn) relayStream(ctx *fasthttp.RequestCtx, writer *h1.Writer, stream io.Reader) Outcome {
	conn.setStream(streamCloser(stream))
	var err error
	if writer.Kind() != h1.NoBody {
		err = conn.copyStream(writer, stream)
	}
	if err != nil {
		writer.Abort()
		conn.discardResponse(ctx)
		conn.result.Err = err
		return OutcomeTruncated
	}
	conn.closeStream(ctx)
	conn.tasks.Wait()
	var trailers []byte
	if writer.Kind() == h1.Chunked {
		trailers = conn.response(ctx).Header.TrailerHeader()
		trailers = trailers[:len(trailers)-len("\r\n")]
	}
	conn.finishResponse(writer, trailers, nil)
	return OutcomeResponded
}

// streamCloser returns a closer that interrupts a read of the stream from another goroutine, or
// nil. Only pipes and connections are known to support that. SetBodyStreamWriter creates a pipe.
func streamCloser(stream io.Reader) io.Closer {
	switch s := stream.(type) {
	case net.Conn:
		return s
	case *io.PipeReader:
		return s
	}
	return nil
}

// copyStream copies the stream into the response. If the response has a declared length, copyStream
// returns after that length.
func (conn *Conn) copyStream(writer *h1.Writer, stream io.Reader) (err error) {
	defer func() {
		if panicValue := recover(); panicValue != nil {
			conn.app.logPanic(panicValue)
			err = errPanicked
		}
	}()
	pooled := conn.app.StreamBuffers.Get(conn.app.StreamBufferSize)
	defer conn.app.StreamBuffers.Put(pooled)
	buf := pooled[:cap(pooled)]
	remaining := int64(math.MaxInt64)
	if writer.Kind() == h1.Length {
		remaining = conn.call.Response.ContentLength()
	}
	for remaining > 0 {
		partSize := min(remaining, int64(len(buf)))
		n, readErr := stream.Read(buf[:partSize])
		if conn.closed.Load() || conn.taskFailed.Load() {
			return errStreamCancelled // an interrupted stream may look complete
		}
		remaining -= int64(n)
		if err := conn.writePart(writer, buf[:n]); err != nil {
			return err
		}
		if errors.Is(readErr, io.EOF) {
			isTooShort := remaining > 0 && writer.Kind() == h1.Length
			if isTooShort {
				return io.ErrUnexpectedEOF
			}
			return nil
		}
		if readErr != nil {
			return readErr
		}
	}
	return nil
}

// writePart sends a part of a stream immediately, because the next part may arrive much later.
func (conn *Conn) writePart(writer *h1.Writer, part []byte) error {
	if conn.call.Slot.Load().Has(inflight.Events) {
		return conn.call.Slot.Events.WritePart(writer, part)
	}
	if _, err := writer.Write(part); err != nil {
		return err
	}
	return writer.Flush()
}
