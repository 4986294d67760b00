// Command workload is the program of test pods: it uses memory and CPUs, writes files, forks, answers requests
// and delays its end, as its flags say. Without arguments it waits for SIGTERM, so that it serves as the pause
// image, too. With --prestop-sleep or --prestop-file it is a preStop hook.
//
// A file that it waits for is a test's barrier: $NAME in its path is that variable, so that the pods of
// one Deployment can have barriers of their own. It need not exist, and may be there from the start.
//
// It logs its steps in lines of a time (RFC 3339, nanoseconds) and a word, on its output and
// in --log-file:
//
//	2006-01-02T15:04:05.999999999Z term
//
// The words: start, begin (the start file is there), first (--memory-first is allocated), memory
// (all allocated), files (all written), output (all printed), grown (all blocks allocated), cache
// (all in the page cache, and read again since), term (SIGTERM came), exit, prestop-start,
// prestop-end.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// settings are the flags.
type settings struct {
	memory       size
	memoryFirst  size
	memoryRate   size
	memoryFile   string
	memoryDrop   size
	startDelay   time.Duration
	startFile    string
	termFile     string
	writePath    string
	writeBytes   size
	files        int
	outputBytes  size
	outputRate   size
	growPath     string
	growBytes    size
	growRate     size
	growDeleted  bool
	cacheFile    string
	cacheBytes   size
	spins        int
	prestopSleep time.Duration
	prestopFile  string
	logFile      string
	serve        string
	forks        int
}

func main() {
	chosen := parse()
	if err := run(chosen, journal{out: os.Stdout, file: chosen.logFile}); err != nil {
		fmt.Fprintln(os.Stderr, "workload:", err)
		os.Exit(1)
	}
}

// parse ends the program on wrong usage.
func parse() (chosen settings) {
	flags := flag.CommandLine
	flags.Var(&chosen.memory, "memory", "anonymous memory to hold, such as 200Mi")
	flags.Var(&chosen.memoryFirst, "memory-first", "how much of it to take at once, whatever the rate")
	flags.Var(&chosen.memoryRate, "memory-rate", "memory to take each second; 0 is all at once")
	flags.StringVar(&chosen.memoryFile, "memory-file", "", "file to wait for before the memory beyond --memory-first is taken")
	flags.Var(&chosen.memoryDrop, "memory-drop", "how much of it to give back whenever all is taken, and to take again at the rate, without end; 0 is none")
	flags.DurationVar(&chosen.startDelay, "start-delay", 0, "time to wait before anything is taken or written")
	flags.StringVar(&chosen.startFile, "start-file", "", "file to wait for before anything is taken or written")
	flags.StringVar(&chosen.termFile, "term-file", "", "file to wait for after SIGTERM, until which it goes on")
	flags.StringVar(&chosen.writePath, "write", "", "file to write; with --files, what their names begin with")
	flags.Var(&chosen.writeBytes, "write-bytes", "bytes to write in all, such as 1Gi")
	flags.IntVar(&chosen.files, "files", 1, "number of files to spread the bytes over")
	flags.Var(&chosen.outputBytes, "output-bytes", "bytes to print in lines, such as 100Mi: they are the container's log")
	flags.Var(&chosen.outputRate, "output-rate", "bytes to print each second; 0 is as fast as possible")
	flags.StringVar(&chosen.growPath, "grow", "", "file to allocate blocks for without writing them; it stays open, and on a full disk the rest is tried again")
	flags.Var(&chosen.growBytes, "grow-bytes", "how many bytes to allocate, such as 8Gi")
	flags.Var(&chosen.growRate, "grow-rate", "bytes to allocate each second; 0 is all at once")
	flags.BoolVar(&chosen.growDeleted, "grow-deleted", false, "delete that file before it grows")
	flags.StringVar(&chosen.cacheFile, "cache", "", "file to make without blocks, and to read again and again, so that it stays in the active page cache")
	flags.Var(&chosen.cacheBytes, "cache-bytes", "how large that file is, such as 600Mi")
	flags.IntVar(&chosen.spins, "spins", 0, "number of threads that use a CPU each, all the time")
	flags.IntVar(&chosen.forks, "forks", 0, "number of processes to start, each of which waits; a failed start is tried again and again")
	flags.StringVar(&chosen.serve, "serve", "", "address to answer HTTP requests at, such as 127.0.0.1:8080; workloads that serve one address share its connections")
	flags.DurationVar(&chosen.prestopSleep, "prestop-sleep", 0, "only sleep that long, as a preStop hook")
	flags.StringVar(&chosen.prestopFile, "prestop-file", "", "only wait for that file, as a preStop hook")
	flags.StringVar(&chosen.logFile, "log-file", "", "file to append the lines to, besides the output; $NAME in it is that variable")
	flag.Parse()
	if flag.NArg() > 0 || chosen.files < 1 || max(chosen.memoryFirst, chosen.memoryDrop) > chosen.memory {
		fmt.Fprintln(os.Stderr, "workload: takes flags only, at least one file, and no more memory first or to give back than in all")
		os.Exit(2) //nolint:mnd // as flag.Parse does
	}
	return chosen
}

func run(chosen settings, log journal) error {
	if chosen.prestopSleep > 0 || chosen.prestopFile != "" {
		return hook(chosen, log)
	}
	// Registered first: as process 1 of a container it only gets the signals that it
	// registers.
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM, syscall.SIGINT)
	if err := log.note("start"); err != nil {
		return err
	}
	worked := make(chan error)
	go func() { worked <- work(chosen, log) }()
	go func() { worked <- serve(chosen.serve) }()
	for {
		select {
		case err := <-worked:
			if err != nil {
				return err
			}
		case <-terminated:
			if err := log.note("term"); err != nil {
				return err
			}
			if err := awaitFile(chosen.termFile); err != nil {
				return err
			}
			return log.note("exit")
		}
	}
}

// hook is a preStop hook.
func hook(chosen settings, log journal) error {
	if err := log.note("prestop-start"); err != nil {
		return err
	}
	sleep(chosen.prestopSleep)
	if err := awaitFile(chosen.prestopFile); err != nil {
		return err
	}
	return log.note("prestop-end")
}

// The program logs the time; no decision uses it.
func now() time.Time        { return time.Now() }
func sleep(d time.Duration) { time.Sleep(d) }

func work(chosen settings, log journal) error {
	sleep(chosen.startDelay)
	if err := awaitFile(chosen.startFile); err != nil {
		return err
	}
	if chosen.startFile != "" {
		if err := log.note("begin"); err != nil {
			return err
		}
	}
	go fork(chosen.forks)
	for range chosen.spins {
		go spin()
	}
	if chosen.memory > 0 {
		if err := takeMemory(chosen, log); err != nil {
			return err
		}
	}
	return workOnFiles(chosen, log)
}

// spin uses a CPU all the time.
func spin() {
	for i := uint64(0); ; i++ {
		runtime.KeepAlive(i)
	}
}

func takeMemory(chosen settings, log journal) error {
	held, err := mapMemory(chosen.memory)
	if err != nil {
		return err
	}
	if chosen.memoryFirst > 0 {
		held.hold(int(chosen.memoryFirst), 0)
		if err := log.note("first"); err != nil {
			return err
		}
	}
	if err := awaitFile(chosen.memoryFile); err != nil {
		return err
	}
	held.hold(int(chosen.memory), chosen.memoryRate)
	if err := log.note("memory"); err != nil {
		return err
	}
	for chosen.memoryDrop > 0 {
		if err := held.drop(int(chosen.memoryDrop)); err != nil {
			return err
		}
		held.hold(int(chosen.memory), chosen.memoryRate)
	}
	return nil
}

func workOnFiles(chosen settings, log journal) error {
	if chosen.writePath != "" {
		if err := writeFiles(chosen.writePath, chosen.writeBytes, chosen.files); err != nil {
			return err
		}
		if err := log.note("files"); err != nil {
			return err
		}
	}
	if chosen.outputBytes > 0 {
		if err := printLines(log.out, chosen.outputBytes, chosen.outputRate); err != nil {
			return err
		}
		if err := log.note("output"); err != nil {
			return err
		}
	}
	if chosen.growPath != "" {
		file := growth{chosen.growPath, chosen.growBytes, chosen.growRate, chosen.growDeleted}
		return file.run(func() error { return log.note("grown") })
	}
	if chosen.cacheFile == "" {
		return nil
	}
	return keepCached(chosen.cacheFile, chosen.cacheBytes, func() error { return log.note("cache") })
}

// journal writes the lines. It opens the file for each line: the hook and the workload share
// it.
type journal struct {
	out  io.Writer
	file string
}

func (j journal) note(word string) error {
	line := now().UTC().Format(time.RFC3339Nano) + " " + word + "\n"
	if _, err := io.WriteString(j.out, line); err != nil {
		return fmt.Errorf("writing to the output: %w", err)
	}
	if j.file == "" {
		return nil
	}
	file, err := os.OpenFile(os.ExpandEnv(j.file), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644) //nolint:gosec // a test reads it as another user
	if err != nil {
		return fmt.Errorf("opening the log: %w", err)
	}
	if _, err := file.WriteString(line); err != nil {
		return errors.Join(fmt.Errorf("writing the log: %w", err), file.Close())
	}
	return file.Close()
}
