package join

import (
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	// maxHistory is the maximum length of Record.History. A request has up to five stages in a row: requested,
	// refused, accepted, synchronized and active.
	maxHistory = 5
	// MaxChanges is the maximum number of changes in one log entry.
	MaxChanges = 256
)

// Kind is the kind of a Change.
type Kind uint8

// The kinds, and the fields of Change that each uses, in addition to UnixMilli.
const (
	Request      Kind = iota + 1 // Server, Boot: a server requests to join
	Accept                       // Server, Ticket, Snapshot, Reason
	Refuse                       // Server, Ticket, Reason
	Expire                       // Server, Ticket
	Synchronize                  // Server, Ticket: the server has caught up with the log
	Activate                     // Server, Ticket: the server owns shards, or is a gateway
	Import                       // Server: a member that joined without a request
	EndBootstrap                 // each further server needs an approval
)

// from returns the stages of a request to which a change of this kind applies.
func (k Kind) from() []Stage {
	switch k {
	case Accept:
		return []Stage{Requested, Refused}
	case Refuse, Expire:
		return []Stage{Requested}
	case Synchronize:
		return []Stage{Accepted}
	case Activate:
		return []Stage{Synchronized}
	case Request, Import, EndBootstrap:
	}
	return nil
}

// to returns the stage of a request after a change of this kind.
func (k Kind) to() Stage {
	switch k {
	case Request:
		return Requested
	case Accept:
		return Accepted
	case Refuse:
		return Refused
	case Expire:
		return Expired
	case Synchronize:
		return Synchronized
	case Activate, Import:
		return Active
	case EndBootstrap:
	}
	return 0
}

// Change is one change of Records. Its Ticket must be the ticket of the record, so a change about an earlier
// request has no effect.
type Change struct {
	Kind      Kind
	Server    string
	Ticket    uint64
	Boot      uint64
	Snapshot  uint64
	Reason    string
	UnixMilli uint64 // wall clock of the leader, only for display
}

// ErrInvalid reports bytes that AppendChanges or Records.Append cannot have written.
var ErrInvalid = errors.New("join: invalid encoding")

// AppendChanges appends the encoding of changes to buf.
func AppendChanges(buf []byte, changes []Change) []byte {
	buf = binary.AppendUvarint(buf, uint64(len(changes)))
	for _, change := range changes {
		buf = append(buf, byte(change.Kind))
		buf = appendText(buf, change.Server)
		for _, number := range []uint64{change.Ticket, change.Boot, change.Snapshot, change.UnixMilli} {
			buf = binary.AppendUvarint(buf, number)
		}
		buf = appendText(buf, change.Reason)
	}
	return buf
}

// DecodeChanges decodes the output of AppendChanges.
func DecodeChanges(data []byte) ([]Change, error) {
	d := decoder{buf: data}
	var changes []Change
	for range d.number(MaxChanges) {
		change := Change{Kind: Kind(d.byte())}
		if d.err == nil && (change.Kind < Request || change.Kind > EndBootstrap) {
			d.fail("kind %d", change.Kind)
		}
		if change.Kind == EndBootstrap {
			d.empty("server")
		} else {
			change.Server = d.server()
		}
		change.Ticket, change.Boot, change.Snapshot, change.UnixMilli = d.number(maxNumber), d.number(maxNumber), d.number(maxNumber), d.number(maxNumber)
		change.Reason = d.text(MaxReason)
		if d.err != nil {
			return nil, d.err
		}
		changes = append(changes, change)
	}
	return changes, d.finish()
}

// Append appends the encoding of the records to buf. Equal records have equal bytes.
func (rs Records) Append(buf []byte) []byte {
	bootstrap := byte(0)
	if rs.bootstrapEnded {
		bootstrap = 1
	}
	buf = append(buf, bootstrap)
	all := rs.All()
	buf = binary.AppendUvarint(buf, uint64(len(all)))
	for _, record := range all {
		buf = append(appendText(buf, record.Server), byte(record.Stage))
		for _, number := range []uint64{record.Ticket, record.Boot, record.EffectiveIndex, record.Snapshot} {
			buf = binary.AppendUvarint(buf, number)
		}
		buf = appendText(buf, record.Reason)
		buf = binary.AppendUvarint(buf, uint64(len(record.History)))
		for _, begin := range record.History {
			buf = binary.AppendUvarint(append(buf, byte(begin.Stage)), begin.UnixMilli)
		}
	}
	return buf
}

// DecodeRecords decodes the output of Records.Append.
func DecodeRecords(data []byte) (Records, error) {
	d := decoder{buf: data}
	bootstrap := d.byte()
	if bootstrap > 1 {
		d.fail("not a boolean")
	}
	records := Records{bootstrapEnded: bootstrap == 1}
	previous := ""
	for range d.number(MaxOpen + MaxClosed + MaxAdmitted) {
		record := d.record()
		if d.err == nil && record.Server <= previous {
			d.fail("records out of order")
		}
		if d.err != nil {
			return Records{}, d.err
		}
		if records.byServer == nil {
			records.byServer = map[string]Record{}
		}
		records.byServer[record.Server], previous = record, record.Server
	}
	if err := d.finish(); err != nil {
		return Records{}, err
	}
	return records, nil
}

// record decodes one record.
func (d *decoder) record() Record {
	record := Record{Server: d.server(), Stage: d.stage()}
	record.Ticket, record.Boot, record.EffectiveIndex, record.Snapshot = d.number(maxNumber), d.number(maxNumber), d.number(maxNumber), d.number(maxNumber)
	record.Reason = d.text(MaxReason)
	for range d.number(maxHistory) {
		record.History = append(record.History, StageTime{Stage: d.stage(), UnixMilli: d.number(maxNumber)})
	}
	if d.err == nil && (len(record.History) == 0 || record.History[len(record.History)-1].Stage != record.Stage) {
		d.fail("the history of %q does not end with its stage", record.Server)
	}
	return record
}

// maxNumber means that a number has no limit.
const maxNumber = 1<<64 - 1

// appendText appends a text with its length.
func appendText(buf []byte, text string) []byte {
	return append(binary.AppendUvarint(buf, uint64(len(text))), text...)
}

// decoder decodes values from the beginning of buf. After the first error, each read returns a zero value.
type decoder struct {
	buf []byte
	err error
}

// fail records an error, unless there is one already.
func (d *decoder) fail(format string, args ...any) {
	if d.err == nil {
		d.err, d.buf = fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...), nil
	}
}

// byte decodes one byte.
func (d *decoder) byte() byte {
	if len(d.buf) == 0 {
		d.fail("cut short")
		return 0
	}
	value := d.buf[0]
	d.buf = d.buf[1:]
	return value
}

// number decodes a number of at most maximum. It rejects padding, because equal values must have equal bytes.
func (d *decoder) number(maximum uint64) uint64 {
	if d.err != nil {
		return 0
	}
	value, length := binary.Uvarint(d.buf)
	if length <= 0 || length > 1 && d.buf[length-1] == 0 || value > maximum {
		d.fail("bad number")
		return 0
	}
	d.buf = d.buf[length:]
	return value
}

// text decodes a text of at most maximum bytes.
func (d *decoder) text(maximum uint64) string {
	length := d.number(maximum)
	if uint64(len(d.buf)) < length {
		d.fail("cut short")
	}
	if d.err != nil {
		return ""
	}
	value := string(d.buf[:length])
	d.buf = d.buf[length:]
	return value
}

// server decodes a server ID.
func (d *decoder) server() string {
	server := d.text(MaxServer)
	if node := NodeOf(server); d.err == nil && (node == "" || len(server) < len(node)+2) {
		d.fail("server %q", server)
	}
	return server
}

// empty decodes a text that must be empty.
func (d *decoder) empty(name string) {
	if d.text(MaxServer) != "" {
		d.fail("%s is not empty", name)
	}
}

// stage decodes a stage.
func (d *decoder) stage() Stage {
	stage := Stage(d.byte())
	if d.err == nil && !stage.isValid() {
		d.fail("stage %d", stage)
	}
	return stage
}

// finish returns the first error. Unread bytes are also an error.
func (d *decoder) finish() error {
	if len(d.buf) > 0 {
		d.fail("%d bytes too many", len(d.buf))
	}
	return d.err
}
