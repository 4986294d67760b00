package measure

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Socket is an established TCP connection over IPv4 that this process holds.
type Socket struct {
	// LocalPort is the port of this process's end.
	LocalPort uint16
	// Received and Sent are the bytes of TCP's payload so far, that of TLS included. What was sent
	// counts once the peer has confirmed it.
	Received, Sent uint64
}

// Sockets returns this process's connections to a port, with the kernel's own counts
// (sock_diag(7), tcp_info).
func Sockets(port int) ([]Socket, error) {
	mine, err := ownSockets()
	if err != nil {
		return nil, err
	}
	var found []Socket
	err = diagnose(func(m *diagMessage, info *unix.TCPInfo) {
		if int(m.remotePort()) == port && mine[m.Inode] {
			found = append(found, Socket{LocalPort: m.localPort(), Received: info.Bytes_received, Sent: info.Bytes_acked})
		}
	})
	return found, err
}

// ownSockets returns the inodes of this process's sockets.
func ownSockets() (map[uint32]bool, error) {
	const folder = "/proc/self/fd"
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, fmt.Errorf("reading this process's files: %w", err)
	}
	mine := map[uint32]bool{}
	for _, entry := range entries {
		target, err := os.Readlink(filepath.Join(folder, entry.Name()))
		if err != nil {
			continue // closed meanwhile
		}
		var inode uint32
		if _, err := fmt.Sscanf(target, "socket:[%d]", &inode); err == nil {
			mine[inode] = true
		}
	}
	return mine, nil
}

// diagRequest is inet_diag_req_v2 of linux/inet_diag.h.
type diagRequest struct {
	Family, Protocol, Extensions, _ uint8
	States                          uint32
	_                               [48]byte // any addresses
}

// diagMessage is inet_diag_msg. Its ports are in the network's order of bytes.
type diagMessage struct {
	Family, State, Timer, Retransmits              uint8
	SourcePort, DestinationPort                    [2]byte
	_                                              [32]byte // the addresses
	Interface                                      uint32
	Cookie                                         [2]uint32
	Expires, ReceiveQueue, SendQueue, Owner, Inode uint32
}

func (m *diagMessage) localPort() uint16  { return binary.BigEndian.Uint16(m.SourcePort[:]) }
func (m *diagMessage) remotePort() uint16 { return binary.BigEndian.Uint16(m.DestinationPort[:]) }

const (
	sockDiagByFamily = 20 // SOCK_DIAG_BY_FAMILY
	diagInfo         = 2  // INET_DIAG_INFO: a tcp_info
	stateEstablished = 1  // TCP_ESTABLISHED
)

// diagnose calls see for each established TCP connection over IPv4.
func diagnose(see func(*diagMessage, *unix.TCPInfo)) error {
	socket, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return fmt.Errorf("opening the kernel's socket diagnosis: %w", err)
	}
	defer unix.Close(socket) //nolint:errcheck // it was only read
	request := diagRequest{Family: unix.AF_INET, Protocol: unix.IPPROTO_TCP, Extensions: 1 << (diagInfo - 1), States: 1 << stateEstablished}
	header := unix.NlMsghdr{
		Len: unix.SizeofNlMsghdr + uint32(unsafe.Sizeof(request)), Type: sockDiagByFamily, Flags: unix.NLM_F_REQUEST | unix.NLM_F_DUMP,
	}
	var text bytes.Buffer
	if err := errors.Join(binary.Write(&text, binary.NativeEndian, &header), binary.Write(&text, binary.NativeEndian, &request)); err != nil {
		return fmt.Errorf("asking for the connections: %w", err)
	}
	if err := unix.Sendto(socket, text.Bytes(), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return fmt.Errorf("asking for the connections: %w", err)
	}
	buffer := make([]byte, 1<<16)
	for {
		n, _, err := unix.Recvfrom(socket, buffer, 0)
		if err != nil {
			return fmt.Errorf("receiving the connections: %w", err)
		}
		if done, err := messages(buffer[:n], see); done || err != nil {
			return err
		}
	}
}

// messages reads one datagram of netlink messages, and returns true at the end of all.
func messages(text []byte, see func(*diagMessage, *unix.TCPInfo)) (done bool, err error) {
	for len(text) >= unix.SizeofNlMsghdr {
		var header unix.NlMsghdr
		if _, err := binary.Decode(text, binary.NativeEndian, &header); err != nil || int(header.Len) > len(text) {
			return true, errors.New("receiving the connections: a message is cut short")
		}
		switch header.Type {
		case unix.NLMSG_DONE:
			return true, nil
		case unix.NLMSG_ERROR:
			return true, errors.New("receiving the connections: the kernel refuses to tell")
		}
		one(text[unix.SizeofNlMsghdr:header.Len], see)
		text = text[min(aligned(int(header.Len)), len(text)):]
	}
	return false, nil
}

// one reads one connection and its attributes.
func one(text []byte, see func(*diagMessage, *unix.TCPInfo)) {
	var message diagMessage
	size, err := binary.Decode(text, binary.NativeEndian, &message)
	if err != nil {
		return
	}
	for rest := text[size:]; len(rest) >= unix.SizeofRtAttr; {
		length := int(binary.NativeEndian.Uint16(rest))
		if length < unix.SizeofRtAttr || length > len(rest) {
			return
		}
		if binary.NativeEndian.Uint16(rest[2:]) == diagInfo {
			var info unix.TCPInfo                                                                                   // an older kernel's is shorter: what it lacks stays zero
			copy(unsafe.Slice((*byte)(unsafe.Pointer(&info)), unsafe.Sizeof(info)), rest[unix.SizeofRtAttr:length]) //nolint:gosec // plain numbers
			see(&message, &info)
		}
		rest = rest[min(aligned(length), len(rest)):]
	}
}

// aligned rounds up to netlink's four bytes.
func aligned(n int) int { return (n + 3) &^ 3 } //nolint:mnd // four bytes
