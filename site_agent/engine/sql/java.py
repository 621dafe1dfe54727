"""Java classes of ours that read Spark's plans, compiled in the JVM by the compiler that Spark itself uses."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from py4j.java_gateway import JavaGateway, JavaObject


@cache
def helper(gateway: JavaGateway, name: str) -> JavaObject:
    """A `java.util.function.Function`: an instance of the class of that name, whose source lies beside this module."""
    compiler = gateway.jvm.org.codehaus.janino.SimpleCompiler()
    compiler.cook(Path(__file__).with_name(f"{name}.java").read_text(encoding="utf-8"))
    java = gateway.jvm.java.lang
    none = gateway.new_array(java.Class, 0)
    made = compiler.getClassLoader().loadClass(name).getConstructor(none)
    return made.newInstance(gateway.new_array(java.Object, 0))
