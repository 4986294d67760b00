package measure

import (
	"errors"
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// Traffic is what one TCP connection has carried: the bytes of TCP's payload so far, that of TLS included. What
// was sent counts once the peer has confirmed it.
type Traffic struct{ Received, Sent uint64 }

// TrafficOf returns the kernel's own counts of a connection over TCP, with or without TLS (tcp_info of tcp(7));
// false when it is no longer established.
func TrafficOf(conn net.Conn) (Traffic, bool) {
	if secured, is := conn.(interface{ NetConn() net.Conn }); is {
		conn = secured.NetConn()
	}
	socket, is := conn.(syscall.Conn)
	if !is {
		return Traffic{}, false
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return Traffic{}, false
	}
	var info *unix.TCPInfo
	var unread error
	err = raw.Control(func(fd uintptr) { info, unread = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
	if errors.Join(err, unread) != nil || info.State != unix.BPF_TCP_ESTABLISHED {
		return Traffic{}, false
	}
	return Traffic{Received: info.Bytes_received, Sent: info.Bytes_acked}, true
}
