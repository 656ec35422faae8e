addSbtPlugin("org.scalameta" % "sbt-scalafmt" % "2.5.5")
addSbtPlugin("com.typesafe" % "sbt-mima-plugin" % "1.1.4")
libraryDependencies += "org.ow2.asm" % "asm" % "9.8"
