package peer

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Version is the protocol version of this node. A node of another version is refused with both
// numbers. There is no negotiation yet.
const Version = 2

const (
	magic = "SHWY"
	// maxBodyLen limits the body of both messages. It is the same in all versions, so that a refusal
	// can always be read.
	maxBodyLen = 1024
	// maxIDLen limits each id in a body.
	maxIDLen = 64
	// maxReasonLen limits a refusal to less than maxBodyLen, whatever ids it contains.
	maxReasonLen = 768

	helloHeaderLen    = len(magic) + 1 + 2     // magic, version, length
	responseHeaderLen = len(magic) + 1 + 1 + 2 // magic, version, status, length

	statusAccepted = 1
)

// hello is the message of the dialer. Its header is the same in all versions: magic, version (1
// byte), length of the body (2, big endian). The body of version 2 is: kind (1); boot (8) and
// record (4 × 8: nonce, term, last index, applied epoch) of the dialer; boot and record that the
// dialer has recorded of the wanted disk, zero if none; then cluster, node, disk, wanted node and
// wanted disk, each preceded by its length (1).
type hello struct {
	kind       Kind
	sender     Identity // the dialer
	wantedNode string   // node that the dialer wants to reach
	wantedDisk string   // disk that this node must have; empty means any
	// knownBoot and knownRecord are what the dialer has recorded of the wanted disk.
	knownBoot   uint64
	knownRecord Record
}

func (h hello) encode() ([]byte, error) {
	b := make([]byte, helloHeaderLen, 128)
	copy(b, magic)
	b[len(magic)] = Version
	b = append(b, byte(h.kind))
	b = appendRecord(b, h.sender.Boot, h.sender.Record)
	b = appendRecord(b, h.knownBoot, h.knownRecord)
	b, err := appendIDs(b, h.sender.Cluster, h.sender.Node, h.sender.Disk, h.wantedNode, h.wantedDisk)
	if err != nil {
		return nil, err
	}
	binary.BigEndian.PutUint16(b[len(magic)+1:], uint16(len(b)-helloHeaderLen))
	return b, nil
}

// readHello reads exactly one hello. It checks the version after it has read the body: closing a
// socket with unread bytes would reset it, and the refusal would be lost.
func readHello(r io.Reader) (hello, error) {
	var header [helloHeaderLen]byte
	if err := readMagic(r, header[:]); err != nil {
		return hello{}, err
	}
	body, err := readBody(r, binary.BigEndian.Uint16(header[len(magic)+1:]))
	if err != nil {
		return hello{}, err
	}
	if version := header[len(magic)]; version != Version {
		return hello{}, newRefusal(RefusedVersionMismatch,
			"the dialer uses peer protocol %d, this node uses %d", version, Version)
	}
	return decodeHello(body)
}

// decodeHello decodes the body of a hello, in the format that the comment of hello describes.
func decodeHello(b []byte) (hello, error) {
	if len(b) < 1+2*recordLen {
		return hello{}, fmt.Errorf("%w: %d bytes", errMalformed, len(b))
	}
	h := hello{kind: Kind(b[0])}
	h.sender.Boot, h.sender.Record = parseRecord(b[1:])
	h.knownBoot, h.knownRecord = parseRecord(b[1+recordLen:])
	err := parseIDs(b[1+2*recordLen:], &h.sender.Cluster, &h.sender.Node, &h.sender.Disk, &h.wantedNode, &h.wantedDisk)
	if err != nil {
		return hello{}, err
	}
	if h.sender.Node == "" || h.wantedNode == "" {
		return hello{}, fmt.Errorf("%w: empty node id", errMalformed)
	}
	return h, nil
}

// readMagic fills header and checks the magic. It checks the magic before it reads the rest,
// because another protocol may send fewer bytes.
func readMagic(r io.Reader, header []byte) error {
	if _, err := io.ReadFull(r, header[:len(magic)]); err != nil {
		return err
	}
	if header[0] == 0x16 && header[1] == 0x03 { // a handshake record of any TLS
		return errUnexpectedTLS
	}
	if string(header[:len(magic)]) != magic {
		return fmt.Errorf("%w: begins with %q", errNotPeerProtocol, header[:len(magic)])
	}
	_, err := io.ReadFull(r, header[len(magic):])
	return err
}

// readBody reads a body of the given size, unless the size exceeds maxBodyLen.
func readBody(r io.Reader, size uint16) ([]byte, error) {
	if size > maxBodyLen {
		return nil, fmt.Errorf("%w: %d bytes, at most %d allowed", errMalformed, size, maxBodyLen)
	}
	b := make([]byte, size)
	if _, err := io.ReadFull(r, b); err != nil {
		return nil, err
	}
	return b, nil
}

// recordLen is the encoded length of a boot and a record.
const recordLen = 5 * 8

// appendRecord appends the encoding of a boot and a record.
func appendRecord(b []byte, boot uint64, record Record) []byte {
	for _, v := range []uint64{boot, record.Nonce, record.Term, record.Last, record.Applied} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return b
}

// parseRecord is the inverse of appendRecord. b must be long enough.
func parseRecord(b []byte) (boot uint64, record Record) {
	uint64At := func(i int) uint64 { return binary.BigEndian.Uint64(b[8*i:]) }
	return uint64At(0), Record{Nonce: uint64At(1), Term: uint64At(2), Last: uint64At(3), Applied: uint64At(4)}
}

// appendIDs appends the ids, each preceded by its length in one byte.
func appendIDs(b []byte, ids ...string) ([]byte, error) {
	for _, id := range ids {
		if len(id) > maxIDLen {
			return nil, fmt.Errorf("peer: id %q has %d bytes, at most %d allowed", id, len(id), maxIDLen)
		}
		b = append(b, byte(len(id)))
		b = append(b, id...)
	}
	return b, nil
}

// parseIDs is the inverse of appendIDs. b must end with the last id.
func parseIDs(b []byte, ids ...*string) error {
	for _, id := range ids {
		if len(b) == 0 {
			return fmt.Errorf("%w: cut short", errMalformed)
		}
		n := int(b[0])
		if n > maxIDLen || n > len(b)-1 {
			return fmt.Errorf("%w: id of %d bytes", errMalformed, n)
		}
		*id, b = string(b[1:1+n]), b[1+n:]
	}
	if len(b) != 0 {
		return fmt.Errorf("%w: %d bytes too many", errMalformed, len(b))
	}
	return nil
}
