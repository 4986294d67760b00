package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// serve answers every request with 200 until the process ends; without an address it does
// nothing. Several processes may serve one address (SO_REUSEPORT): the kernel spreads the
// connections over those that listen, as a Service does over the ready pods.
func serve(address string) error {
	if address == "" {
		return nil
	}
	shared := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var refused error
		err := raw.Control(func(fd uintptr) {
			refused = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		})
		return errors.Join(err, refused)
	}}
	listener, err := shared.Listen(context.Background(), "tcp", address)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	for {
		connection, err := listener.Accept()
		if err != nil {
			return fmt.Errorf("accepting a connection: %w", err)
		}
		go answer(connection)
	}
}

// answer reads a request without a body and answers it. It does without net/http, which would
// triple the program: it is in every pod, as the pause image.
func answer(connection net.Conn) {
	defer connection.Close() //nolint:errcheck // the client sees it
	const patience = 5 * time.Second
	if connection.SetDeadline(now().Add(patience)) != nil {
		return
	}
	for lines := bufio.NewScanner(connection); lines.Scan(); {
		if lines.Text() == "" { // the end of the headers
			_, _ = io.WriteString(connection, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			return
		}
	}
}

// fork starts processes that wait, until there are so many. At a limit of PIDs it goes on
// trying, as a fork bomb does. They end with the container.
func fork(count int) {
	const rest = time.Millisecond
	for started := 0; started < count; {
		_, err := syscall.ForkExec("/proc/self/exe", []string{"workload"}, &syscall.ProcAttr{}) //nolint:gosec // this program
		if err != nil {
			sleep(rest)
			continue
		}
		started++
	}
}
