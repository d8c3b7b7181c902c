# System calls whose number and callers are known: "ready", then, after a line of input, Process.ppid from methods, blocks, a thread, a fiber
# and code that was given as text; "done"; it ends with its input.
$stdout.sync = true

def few
  30.times { Process.ppid }
end

class Shop
  def order(n)
    (1..n).each { |i| ask(i) }
  end

  def ask(i)
    Process.ppid
  end

  def self.open
    20.times { Process.ppid }
  end

  define_method(:defined) { 5.times { Process.ppid } }
end

def recurse(n)
  n.zero? ? Process.ppid : recurse(n - 1)
end

def in_thread
  Thread.new { 11.times { Process.ppid } }.join
end

def in_fiber
  Fiber.new { 13.times { Process.ppid } }.resume
end

def fails
  raise 'on purpose'
rescue RuntimeError
  3.times { Process.ppid }
end

def in_text
  eval('7.times { Process.ppid }', nil, '/srv/text.rb', 100)
end

def work
  few
  Shop.new.order(40)
  Shop.open
  Shop.new.defined
  recurse(10)
  in_thread
  in_fiber
  fails
  in_text
end

puts 'ready'
$stdin.gets
work
puts 'done'
$stdin.read
